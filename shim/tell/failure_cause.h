// Why a request for memory of a device has failed, found out from what is there: what an arena or
// the driver has answered is often only the last thing that was tried.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "arena/arena.h"
#include "config/policy.h"

namespace cubfc {

enum class Cause : std::uint8_t {
  kUnusableLimit,    // a limit that cannot be read, or is none
  kLargerThanLimit,  // and so it always will be
  kLargerThanDevice,
  kOverLimit,
  kWaiting,      // for a capture to end: what was freed meanwhile is not used before
  kFragmented,   // enough is free, but not in one piece
  kReserve,      // CUBFC_RESERVE
  kHostReserve,  // CUBFC_HOST_RESERVE
  kDeviceFull,
  kDriver,  // it has refused, though the device has enough
  kHostMemory,
};

// Sizes are bytes; of the device at the moment of the failure.
struct FailedRequestFacts {
  std::uint64_t asked = 0;
  bool of_arena = true;  // it may lie in an arena, if that has room; else only beside
  arena::Failure failure = arena::Failure::kExhausted;  // as the arena has it
  std::uint64_t free_in_arena = 0;                      // of the arena that was asked
  std::uint64_t waiting_in_arena = 0;                   // freed, and not to be used yet
  // What is free there in whole pages of CUBFC_ALLOCATOR=vmm, which could move; if the device can
  // map memory, and it was looked at.
  std::optional<std::uint64_t> free_in_pages;
  struct Limit {
    std::uint64_t bytes;
    std::uint64_t taken;
    const config::Origin* origin;  // nullptr: nobody can be named
  };
  std::optional<Limit> limit;  // that counts such requests, and has least left
  bool limit_is_unusable = false;
  struct Group {
    std::string name;
    std::uint64_t bytes;
    std::uint64_t taken;
    std::size_t processes;
    bool is_changed;  // while they run, by `cubfc limit`
  };
  std::optional<Group> group;  // whose budget the limit is, or shares
  struct Device {
    std::uint64_t total;
    std::uint64_t free;
    std::uint64_t ours;  // in all arenas of the process and beside them
  };
  std::optional<Device> device;  // if the driver tells
  bool host_reserve_refuses = false;
};

Cause cause_of(const config::Policy& policy, const FailedRequestFacts& facts);

// As scripts know it, and so it stays: "over_limit".
const char* name_of(Cause cause);

// One line: "over the limit (12.00 GiB of 16.00 GiB taken)".
std::string describe(const config::Policy& policy, const FailedRequestFacts& facts, Cause cause);

// What would help here and is not set already; empty if nothing would.
std::string advice(const config::Policy& policy, const FailedRequestFacts& facts, Cause cause);

}  // namespace cubfc
