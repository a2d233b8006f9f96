// Playing a workload through an allocator, and checking what comes out. A contender is a class with
//   explicit A(std::uint64_t capacity);
//   Handle allocate(std::uint64_t bytes);  bool failed(Handle);
//   void free(Handle);  std::uint64_t address(Handle);
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "workload.h"

namespace cubfc::bench {

template <typename A>
using Handles = std::vector<typename A::Handle>;

// The loop that is timed. False at the first allocation that fails; the allocator is of no further
// use then.
template <typename A>
bool play(A& allocator, const Workload& workload, Handles<A>& handles) {
  for (const Op& op : workload.ops) {
    if (op.bytes == 0) {
      allocator.free(handles[op.slot]);
      continue;
    }
    const typename A::Handle handle = allocator.allocate(op.bytes);
    if (allocator.failed(handle)) {
      return false;
    }
    handles[op.slot] = handle;
  }
  return true;
}

// A region holds less than 2^32 granules, see arena/units.h.
inline constexpr std::uint64_t kLargestCapacity = (std::uint64_t{2} << 40) - (4U << 20);

// Room enough that fragmentation decides nothing.
inline std::uint64_t ample_capacity(const Workload& workload, double factor = 2) {
  const double bytes = static_cast<double>(workload.peak_block_bytes) * factor;
  return std::min(static_cast<std::uint64_t>(bytes) + (64U << 20), kLargestCapacity);
}

struct Played {
  std::uint64_t overlaps = 0;
  std::uint64_t failures = 0;      // 1 at most: the first ends it
  std::uint64_t extent_bytes = 0;  // from the lowest address handed out to the highest end
};

// The same operations, outside any timing, with every block checked against those that are live.
template <typename A>
Played play_checked(A& allocator, const Workload& workload) {
  Played played;
  Handles<A> handles(workload.slots);
  std::map<std::uint64_t, std::uint64_t> live;  // address to end
  std::uint64_t lowest = ~std::uint64_t{0};
  std::uint64_t highest = 0;
  for (const Op& op : workload.ops) {
    if (op.bytes == 0) {
      live.erase(allocator.address(handles[op.slot]));
      allocator.free(handles[op.slot]);
      continue;
    }
    const typename A::Handle handle = allocator.allocate(op.bytes);
    if (allocator.failed(handle)) {
      ++played.failures;
      return played;
    }
    handles[op.slot] = handle;
    const std::uint64_t address = allocator.address(handle);
    const std::uint64_t end = address + op.bytes;
    const auto [here, is_new] = live.try_emplace(address, end);
    const bool clashes = !is_new ||
                         (std::next(here) != live.end() && std::next(here)->first < end) ||
                         (here != live.begin() && std::prev(here)->second > address);
    played.overlaps += clashes ? 1 : 0;
    lowest = std::min(lowest, address);
    highest = std::max(highest, end);
  }
  played.extent_bytes = highest - lowest;
  return played;
}

}  // namespace cubfc::bench
