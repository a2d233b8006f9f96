// How an arena takes its memory. Plain data; what a policy makes of it is in
// config/arena_options.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "arena/units.h"

namespace cubfc::arena {

struct Options {
  // Obtained at the first allocation; 0 grows on demand. The source may have less.
  std::uint64_t preallocate_bytes = 0;
  // In one region, which serves everything; when the source has less, a tenth less is asked for
  // until it gives, as XLA does. Else in slices, as growth.
  bool whole = false;
  // Slices are regions for many blocks: the first of 2 MiB, each next one twice as large, up to
  // this. Each takes 2 MiB more than large blocks can use.
  std::uint64_t slice_bytes = std::uint64_t{256} << 20;
  // A larger request has a region of its own: no other block keeps that from being given back, and
  // no small one takes a part of what a large one needs.
  std::uint64_t own_above_bytes = kLargestRequestBytes;
  // A larger request fails at once: nothing is asked for, nothing given back.
  std::uint64_t largest_bytes = kLargestRequestBytes;

  // For a device, or a limit, of so many bytes: what lost least memory on traces
  // (docs/benchmarks.md).
  static constexpr Options in_slices_of(std::uint64_t all_bytes) {
    Options options;
    options.slice_bytes = std::max(round_up(all_bytes / 64, kSourceUnitBytes), options.slice_bytes);
    options.own_above_bytes =
        std::min(options.slice_bytes / 16, std::max(all_bytes / 256, kSourceUnitBytes / 2));
    return options;
  }
};

}  // namespace cubfc::arena
