// How long an allocate-free pair takes: all contenders on one workload, in turns.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "workload.h"

namespace cubfc::bench {

inline constexpr const char* kFloor = "floor";
inline constexpr const char* kLockedFloor = "floor_locked";
inline constexpr const char* kByHandle = "by_handle";
inline constexpr const char* kLocked = "locked_look_up";
inline constexpr const char* kAsTheShim = "locked_as_the_shim";
inline constexpr const char* kXla = "xla_best_fit";
inline constexpr const char* kFirstFit = "first_fit";
// Not built in, or not played: see others.h.
inline constexpr const char* kOffsetAllocator = "offset_allocator";
inline constexpr const char* kVma = "vma";
inline constexpr const char* kRmm = "rmm";

// A search from hole to hole takes seconds a pass with more than this.
inline constexpr std::uint64_t kMostBlocksForFirstFit = 10'000;

struct SpeedSettings {
  int rounds = 9;
  double ns_a_turn = 20e6;  // a contender plays at least so long in each round
};

// Of one contender, medians over the rounds. 0 when it could not play the workload.
struct PairTime {
  double ns = 0;
  double to_floor = 0;         // over the floor without a lock, of the same round
  double to_locked_floor = 0;  // over the floor with two lock-unlock pairs, of the same round
};

// By contender.
using PairTimes = std::map<std::string, PairTime>;
PairTimes measure_pairs(const Workload& workload, const SpeedSettings& settings);

// The engine in 1, 4 and 16 regions of equal size: by handle, and with the look-up by address.
struct RegionsTime {
  int regions = 0;
  double by_handle_ns = 0;
  double look_up_ns = 0;
};
std::vector<RegionsTime> measure_regions(const Workload& workload, const SpeedSettings& settings);

}  // namespace cubfc::bench
