// How an arena obtains its memory. Plain data; config/arena_options.h derives it from a policy.
#pragma once

#include <algorithm>
#include <cstdint>

#include "arena/units.h"

namespace cubfc::arena {

struct Options {
  // Bytes to obtain at the first allocation; 0: the arena grows on demand. The source may have
  // less.
  std::uint64_t preallocate_bytes = 0;
  // True: these bytes are obtained as one region for many blocks. While the source has too little,
  // the arena asks for a tenth less each time, as XLA does. False: in slices, like all later
  // growth.
  bool whole = false;
  // The largest slice, in bytes. A slice is a region for many blocks. The first slice has 2 MiB,
  // each next one twice as much, up to this. No block that is aligned to 2 MiB can start in the
  // first 2 MiB of a slice, since the slice's lead is there.
  std::uint64_t slice_bytes = std::uint64_t{256} << 20;
  // A request of more bytes gets a region of its own. So no other block keeps that region from
  // being given back, and no small block takes a part of what a large one needs.
  std::uint64_t own_above_bytes = kLargestRequestBytes;
  // A request of more bytes fails at once: the arena obtains nothing and gives nothing back.
  std::uint64_t largest_bytes = kLargestRequestBytes;

  // Options for a device, or a limit, of `all_bytes`. These sizes lost the least memory on the
  // recorded traces (docs/benchmarks.md).
  static constexpr Options in_slices_of(std::uint64_t all_bytes) {
    Options options;
    options.slice_bytes = std::max(round_up(all_bytes / 64, kSourceUnitBytes), options.slice_bytes);
    options.own_above_bytes =
        std::min(options.slice_bytes / 16, std::max(all_bytes / 256, kSourceUnitBytes / 2));
    return options;
  }
};

}  // namespace cubfc::arena
