// How many freed blocks an arena gathers (an epoch) before the device is asked when it will be done
// with them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cubfc::arena {

// What an arena has, in bytes.
struct Headroom {
  std::uint64_t peak_in_use = 0;
  std::uint64_t free = 0;
  std::uint64_t retired = 0;
  std::uint64_t to_grow = 0;  // what the limit leaves; 0 once the source had nothing left
  std::uint64_t in_use = 0;   // by live and retired blocks
};

// Whether an epoch of so many blocks and bytes is to be closed. Closing costs a driver call for
// each context. But no block of an epoch can be used again until the epoch is closed and the device
// is done. So an epoch stays small while little memory is free, compared with the peak of bytes in
// use, and becomes larger while much is free.
constexpr bool is_epoch_full(std::size_t blocks, std::uint64_t bytes, const Headroom& room) {
  constexpr std::size_t kMostBlocks = 32;
  constexpr std::uint64_t kFewBytes = std::uint64_t{1} << 20;
  return blocks >= kMostBlocks ||
         bytes >= std::max({room.peak_in_use / 128, room.free / 16, kFewBytes});
}

}  // namespace cubfc::arena
