#include "config/arena_options.h"

#include <algorithm>
#include <bit>

namespace cubfc::config {
namespace {

// A page is a 4,096th of the device or of the limit, so that much memory is not mapped in too many
// calls and little has not too few pages.
constexpr std::uint64_t kPages = 4096;
constexpr std::uint64_t kLargestPageBytes = 32ULL << 20;

}  // namespace

arena::Options arena_options(const Policy& policy, const ArenaDevice& device,
                             std::uint64_t wanted) noexcept {
  arena::Options options;
  if (!device.is_managed) {
    options = arena::Options::in_slices_of(std::min(device.total_bytes, device.limit_bytes));
    options.largest_bytes = device.total_bytes;
  }
  if (device.is_managed || policy.preallocate.value == Preallocate::kWhole) {
    options.whole = true;
    options.own_above_bytes = arena::kLargestRequestBytes;
  }
  // What is taken ahead of the host's memory, the host has not.
  const bool by_default = !policy.preallocate.is_set() && !policy.mem_fraction.is_set();
  options.preallocate_bytes = device.is_integrated && by_default ? 0 : wanted;
  return options;
}

std::uint64_t page_bytes(std::uint64_t bytes, std::uint64_t granularity) noexcept {
  return std::max(granularity, std::min(std::bit_ceil(bytes / kPages), kLargestPageBytes));
}

}  // namespace cubfc::config
