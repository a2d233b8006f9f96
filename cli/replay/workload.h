// The requests of a recording, made ready to be played many times: which blocks are allocated and
// freed, in which order, without their addresses. Knows nothing of policies.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::replay {

// Which requests are played.
enum class Requests : std::uint8_t {
  kBlocks,    // the program's: kAllocate, kFree, kRetire
  kSegments,  // those of the arena or cache that served the program: kGrow, kShrink
};

struct Operation {
  enum class Kind : std::uint8_t {
    kAllocate,
    kFree,
    kFail,      // a request of so many bytes, which failed in the recording
    kEndGroup,  // the group's context has ended, and with it all of its memory
    kCopy,      // a kFull: only copied into the trace that the play writes
  };
  std::uint64_t bytes = 0;  // kAllocate, kFail
  std::uint32_t slot = 0;   // kAllocate, kFree: which live block
  std::uint32_t event = 0;  // which of the recording's
  std::uint32_t group = 0;  // recordings::kNone: of the process
  Kind kind = Kind::kCopy;
};

// The requests for one kind of memory in one context. Under any policy, all of them are served by
// one arena, or all by the driver.
struct Group {
  std::uint32_t device = 0;   // which of Workload::devices
  std::uint32_t context = 0;  // which of Workload::contexts
  recordings::Place place;    // as it was recorded; kArena for all that cuMemAlloc gives
};

struct Device {
  std::uint32_t number = 0;
  std::uint64_t total_bytes = 0;  // 0: not recorded
  std::uint64_t peak_bytes = 0;   // the most that was in use at once, as asked for
  std::uint64_t most_asked = 0;   // the peak, if failed requests had got their memory
};

struct Workload {
  std::vector<Operation> operations;
  std::vector<Group> groups;
  std::vector<std::vector<std::uint32_t>> contexts;  // of each, the groups that end with it
  std::vector<Device> devices;
  std::uint32_t slots = 0;
  std::uint64_t allocations = 0;
  std::uint64_t failures = 0;       // in the recording
  std::uint64_t peak_bytes = 0;     // of all devices together
  std::uint64_t peak_blocks = 0;    // how many blocks were live at that peak
  std::uint64_t unknown_frees = 0;  // of blocks from before the recording; they are left out
  std::uint64_t missing_frees = 0;  // of blocks that were live when their address was given anew

  std::uint64_t largest_peak_bytes() const;  // of one device
};

Workload make_workload(const recordings::Recording& recording, Requests requests);

}  // namespace cubfc::replay
