// Describes a request that did not get its memory: what there was, and why it was not enough.
#pragma once

#include <cstdint>
#include <string>

#include "arena/arena.h"

namespace cubfc::replay {

class PlayedArena;
class SimulatedDevice;

// A request that did not get its memory. kPlenty: see conditions.h.
struct OutOfMemory {
  std::uint64_t operation = 0;  // its number among the workload's allocations and frees, from 1
  std::uint64_t event = 0;      // its number in the recording (Recording::number_of())
  std::uint64_t time_ns = 0;
  std::uint64_t asked_bytes = 0;
  std::uint32_t device = 0;   // its number
  bool was_recorded = false;  // the request failed in the recording, too
  // Of the arena that was asked; 0 without one.
  std::uint64_t in_use_bytes = 0;   // rounding included
  std::uint64_t waiting_bytes = 0;  // of these: freed, but not yet free
  std::uint64_t free_bytes = 0;
  std::uint64_t largest_free_bytes = 0;
  // Of the device.
  std::uint64_t limit_left_bytes = 0;   // kPlenty: there is no limit
  std::uint64_t device_free_bytes = 0;  // kPlenty: only the limit counts
  std::string cause;
};

// The state in which a request has failed.
struct Refusal {
  std::uint64_t asked_bytes;
  const PlayedArena* played;  // the arena that was asked; NULL for memory that is in none
  const SimulatedDevice& device;
  std::uint32_t device_number;
  bool only_limit_counts;  // Conditions::device_is_large_enough
  arena::Failure failure;  // of the last try
};

// Fills in all except operation, event, time_ns and was_recorded.
OutOfMemory describe(const Refusal& refusal);

// The description in one line, for a trace.
std::string text_of(const OutOfMemory& failed);

}  // namespace cubfc::replay
