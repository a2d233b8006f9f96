// Finds why a request for memory of a device has failed. Goes by the figures of memory and limits
// at the moment of the failure, because the error of the arena or of the driver often tells only
// about what was tried last.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "arena/arena.h"
#include "config/policy.h"

namespace cubfc {

enum class Cause : std::uint8_t {
  kUnusableLimit,    // the limit cannot be read, or its group cannot be joined
  kLargerThanLimit,  // so no such request can ever succeed
  kLargerThanDevice,
  kOverLimit,
  kWaiting,      // enough was freed, but waits for work, or for a capture to end
  kFragmented,   // enough is free, but not in one piece
  kReserve,      // CUBFC_RESERVE
  kHostReserve,  // CUBFC_HOST_RESERVE
  kDeviceFull,
  kDriver,  // the driver has refused, though the device has enough
  kHostMemory,
};

// Sizes are in bytes, at the moment of the failure.
struct FailedRequestFacts {
  std::uint64_t asked = 0;
  bool of_arena = true;  // an arena was asked; false: such a request is served outside of arenas
  arena::Failure failure = arena::Failure::kExhausted;  // outside of arenas: as an arena would fail
  std::uint64_t free_in_arena = 0;                      // of the arena asked, or of the largest
  std::uint64_t waiting_in_arena = 0;                   // freed there, and not to be used yet
  // What is free in that arena in whole pages of CUBFC_ALLOCATOR=vmm, which could be mapped
  // elsewhere. Nothing if the device cannot map memory, or if the blocks were not looked at.
  std::optional<std::uint64_t> free_in_pages;
  struct Limit {
    std::uint64_t bytes;
    std::uint64_t taken;
    const config::Origin* origin;  // who has set it; nullptr: it is unusable
  };
  std::optional<Limit> limit;  // of the limits that count the request, the one with the least left
  bool limit_is_unusable = false;
  struct Group {
    std::string name;
    std::uint64_t bytes;
    std::uint64_t taken;
    std::size_t processes;
    bool is_changed;  // by `cubfc limit`, while the processes run
  };
  std::optional<Group> group;  // the process's group
  struct Device {
    std::uint64_t total;
    std::uint64_t free;
    std::uint64_t ours;  // taken by this process: in arenas, beside them, preallocated
  };
  std::optional<Device> device;  // nothing if the driver does not tell
  bool host_reserve_refuses = false;
};

Cause cause_of(const config::Policy& policy, const FailedRequestFacts& facts);

// The name by which scripts know the cause, which must not change: "over_limit".
const char* name_of(Cause cause);

// One line: "over the limit (12.00 GiB of 16.00 GiB taken)".
std::string describe(const config::Policy& policy, const FailedRequestFacts& facts, Cause cause);

// What setting would help here and is not set already; empty if none would.
std::string advice(const config::Policy& policy, const FailedRequestFacts& facts, Cause cause);

}  // namespace cubfc
