#include "arena/growth_in_one_region.h"

#include <algorithm>
#include <utility>

#include "arena/units.h"

namespace cubfc::arena {

// When the first request gets a region of its own, nothing is preallocated, neither then nor later.
Growth::Outcome GrowthInOneRegion::grow(Locked& lock, std::uint64_t request) {
  if (to_preallocate_ > 0 && !SourceCalls::this_thread_is_inside() && !has_own_region(request)) {
    const Outcome outcome = preallocate(lock, slice_bytes_for(block_bytes_for(request)));
    if (!needs_less(outcome, request)) {
      return outcome;
    }
  }
  const std::uint64_t all =
      SourceCalls::this_thread_is_inside() ? 0 : std::exchange(to_preallocate_, 0);
  const Outcome outcome = obtain_for(lock, request);
  if (!outcome.grew) {
    to_preallocate_ = std::max(to_preallocate_, all);
  }
  return outcome;
}

// Obtains the region. While the source has too little, asks for a tenth less each time.
Growth::Outcome GrowthInOneRegion::preallocate(Locked& lock, std::uint64_t least_bytes) {
  const std::uint64_t all = std::exchange(to_preallocate_, 0);  // so that no other thread does, too
  const std::uint64_t bytes =
      round_down(std::min(all, slice_bytes_for(kLargestRequestBytes)), kGranuleBytes);
  const Outcome outcome =
      obtain(lock, {std::max(bytes, least_bytes), least_bytes, 10, 0, Regions::Kind::kSlice});
  if (!outcome.grew) {
    to_preallocate_ = all;
  }
  return outcome;
}

}  // namespace cubfc::arena
