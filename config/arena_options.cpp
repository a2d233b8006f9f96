#include "config/arena_options.h"

#include <algorithm>
#include <bit>

namespace cubfc::config {
namespace {

// A page is about a 4,096th of the device or of the limit. Larger pages for more memory keep down
// the number of calls that map it; smaller pages for less memory keep it from being only a few
// pages.
constexpr std::uint64_t kPages = 4096;
constexpr std::uint64_t kLargestPageBytes = 32ULL << 20;

// Slices of a process in a group. One block keeps its whole slice from the other members of the
// group, and blocks of 2 MiB cannot use the first 2 MiB of a slice (its lead, see arena/options.h).
// So a slice is a 32nd of the limit, up to 128 MiB (or a 256th of the limit, where that is more). A
// request larger than a 4096th of the limit has a region of its own, if it is also larger than
// 2 MiB.
//
// Measured under limits of 4 to 20 GiB: three processes that have allocated and freed at random
// leave a fourth 97 to 99% of what they do not use (with the slices of a process by itself 86 to
// 99%), and blocks of 2 MiB get 98% of the limit. With slices of 32 MiB the fourth would get no
// more, and blocks of 2 MiB only 94%. Where slices are smaller than 128 MiB, blocks of 2 MiB have
// regions of their own, a call of the driver each, as without an arena.
void in_slices_for_group(arena::Options& options, std::uint64_t limit_bytes) noexcept {
  constexpr std::uint64_t kBlock = 2ULL << 20;
  constexpr std::uint64_t kLargeSlice = 128ULL << 20;
  const std::uint64_t small = std::max<std::uint64_t>(limit_bytes / 256, 32ULL << 20);
  const std::uint64_t large = std::min(limit_bytes / 32, kLargeSlice);
  options.slice_bytes = std::min(options.slice_bytes,
                                 arena::round_up(std::max(small, large), arena::kSourceUnitBytes));
  options.own_above_bytes = std::min(options.own_above_bytes, small / 16);
  if (options.slice_bytes < kLargeSlice) {
    options.own_above_bytes = std::min(options.own_above_bytes, kBlock - 1);
  }
}

}  // namespace

arena::Options arena_options(const Policy& policy, const ArenaDevice& device,
                             std::uint64_t wanted) noexcept {
  arena::Options options;
  if (!device.is_managed) {
    options = arena::Options::in_slices_of(std::min(device.total_bytes, device.limit_bytes));
    options.largest_bytes = device.total_bytes;
    if (policy.group.value) {
      in_slices_for_group(options, device.limit_bytes);
    }
  }
  if (device.is_managed || policy.preallocate.value == Preallocate::kWhole) {
    options.whole = true;
    options.own_above_bytes = arena::kLargestRequestBytes;
  }
  // On an integrated GPU, preallocation takes memory from the host: by default nothing is
  // preallocated there.
  options.preallocate_bytes = device.is_integrated && policy.preallocates_by_default() ? 0 : wanted;
  return options;
}

std::uint64_t page_bytes(std::uint64_t bytes, std::uint64_t granularity) noexcept {
  return std::max(granularity, std::min(std::bit_ceil(bytes / kPages), kLargestPageBytes));
}

}  // namespace cubfc::config
