#include "config/arena_options.h"

#include <algorithm>
#include <bit>

namespace cubfc::config {
namespace {

// A page is a 4,096th of the device or of the limit, so that much memory is not mapped in too many
// calls and little has not too few pages.
constexpr std::uint64_t kPages = 4096;
constexpr std::uint64_t kLargestPageBytes = 32ULL << 20;

// What one block keeps from the other members of a group is its whole slice. Beside three processes
// that have allocated and freed at random under a limit of 20 GiB, these leave a fourth 95% of what
// nobody uses, those of a process by itself 89%. The price is growth in more steps: a recorded
// fine-tuning run of 4.7 GB takes 398 regions instead of 112, and no more memory.
void in_slices_for_group(arena::Options& options, std::uint64_t limit_bytes) noexcept {
  constexpr std::uint64_t kSlices = 256;
  constexpr std::uint64_t kLeastBytes = 32ULL << 20;
  options.slice_bytes = std::min(
      options.slice_bytes,
      arena::round_up(std::max(limit_bytes / kSlices, kLeastBytes), arena::kSourceUnitBytes));
  options.own_above_bytes = std::min(options.own_above_bytes, options.slice_bytes / 16);
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
  // What is taken ahead of the host's memory, the host has not.
  const bool by_default = !policy.preallocate.is_set() && !policy.mem_fraction.is_set();
  options.preallocate_bytes = device.is_integrated && by_default ? 0 : wanted;
  return options;
}

std::uint64_t page_bytes(std::uint64_t bytes, std::uint64_t granularity) noexcept {
  return std::max(granularity, std::min(std::bit_ceil(bytes / kPages), kLargestPageBytes));
}

}  // namespace cubfc::config
