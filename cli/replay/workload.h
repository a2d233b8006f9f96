// What a recording asks for, made ready to be played many times: which blocks are given and freed,
// in what order, without the addresses that they had. Knows nothing of policies.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::replay {

// Which requests are played.
enum class Requests : std::uint8_t {
  kBlocks,    // those of the program
  kSegments,  // those that whoever served the program made for regions, as kGrow and kShrink
};

struct Operation {
  enum class Kind : std::uint8_t {
    kAllocate,
    kFree,
    kFail,      // a request of so many bytes, to which the answer was no
    kEndGroup,  // a context has ended, with all that is there
    kCopy,      // only for a trace: the event as it is
  };
  std::uint64_t bytes = 0;  // kAllocate, kFail
  std::uint32_t slot = 0;   // kAllocate, kFree: which live block
  std::uint32_t event = 0;  // which of the recording's
  std::uint32_t group = 0;  // recordings::kNone: of the process
  Kind kind = Kind::kCopy;
};

// What is served from one place under any policy: memory of one kind, in one context.
struct Group {
  std::uint32_t device = 0;   // which of Workload::devices
  std::uint32_t context = 0;  // which of Workload::contexts
  recordings::Place place;    // as it was recorded; kArena for all that cuMemAlloc gives
};

struct Device {
  std::uint32_t number = 0;
  std::uint64_t total_bytes = 0;  // 0: not recorded
  std::uint64_t peak_bytes = 0;   // the most that was in use at once, as asked for
  std::uint64_t most_asked = 0;   // the same, where a failed request counts for a moment
};

struct Workload {
  std::vector<Operation> operations;
  std::vector<Group> groups;
  std::vector<std::vector<std::uint32_t>> contexts;  // the groups that end together
  std::vector<Device> devices;
  std::uint32_t slots = 0;
  std::uint64_t allocations = 0;
  std::uint64_t failures = 0;       // in the recording
  std::uint64_t peak_bytes = 0;     // of all devices together
  std::uint64_t peak_blocks = 0;    // that there were then
  std::uint64_t unknown_frees = 0;  // of what was there before; they are left out
  std::uint64_t missing_frees = 0;  // told by another block's being where one was

  std::uint64_t largest_peak_bytes() const;  // of one device
};

Workload make_workload(const recordings::Recording& recording, Requests requests);

}  // namespace cubfc::replay
