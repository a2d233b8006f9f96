#include "arena/growth_by_regions.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "arena/units.h"

namespace cubfc::arena {

void GrowthByRegions::begin(const Options& options) noexcept {
  options_ = options;
  to_preallocate_ = options.preallocate_bytes;
  next_step_bytes_ = kSourceUnitBytes;
}

std::uint64_t GrowthByRegions::bytes_for(std::uint64_t request) const noexcept {
  return has_own_region(request) ? request : std::max(request, next_step_bytes_) + kRegionLeadBytes;
}

// Obtains a region for the request. The first call that does so also obtains all that is to be
// preallocated, in slices.
Growth::Outcome GrowthByRegions::grow(Locked& lock, std::uint64_t request) {
  const std::uint64_t all =
      SourceCalls::this_thread_is_inside() ? 0 : std::exchange(to_preallocate_, 0);
  const std::uint64_t before = pool_.counts.pool_bytes();
  const Outcome outcome = obtain_for(lock, request);
  if (!outcome.grew) {
    to_preallocate_ = std::max(to_preallocate_, all);
  } else if (all > 0) {
    preallocate_slices(lock, less(all, less(pool_.counts.pool_bytes(), before)));
  }
  return outcome;
}

// Obtains a slice, or, where a slice with its lead is too large, a region that holds just the
// request.
Growth::Outcome GrowthByRegions::obtain_for(Locked& lock, std::uint64_t request) {
  // At most an eighth larger than the request, as Regions::allocate_own() demands.
  const std::uint64_t whole_units = round_up(request, kSourceUnitBytes);
  const std::uint64_t least = round_up(request, kGranuleBytes);
  const Wish own{whole_units - request <= request / 8 ? whole_units : least, least, 1, 0,
                 Regions::Kind::kOwn};
  Outcome outcome{false, Failure::kOverLimit, 0};
  if (!has_own_region(request)) {
    outcome = obtain_slice(lock, block_bytes_for(request), kLargestRequestBytes);
  }
  return needs_less(outcome, request) ? obtain(lock, own) : outcome;
}

// Whether a region that holds just the request may be obtained although a slice was not.
bool GrowthByRegions::needs_less(const Outcome& outcome, std::uint64_t request) {
  const std::uint64_t slice = round_up(slice_bytes_for(block_bytes_for(request)), kSourceUnitBytes);
  return outcome.failure == Failure::kOverLimit ||
         (outcome.failure == Failure::kExhausted && round_up(request, kSourceUnitBytes) < slice);
}

// Obtains the next slice. It has room for several blocks of this size, as programs ask for the same
// size again. The lead comes on top.
Growth::Outcome GrowthByRegions::obtain_slice(Locked& lock, std::uint64_t block_bytes,
                                              std::uint64_t most_bytes) {
  const std::uint64_t least_bytes = slice_bytes_for(block_bytes);
  const std::uint64_t most = std::min(next_step_bytes_, most_bytes);
  const std::uint64_t step = SourceCalls::this_thread_is_inside()
                                 ? least_bytes
                                 : std::max(most - most % block_bytes, block_bytes);
  const Outcome outcome =
      obtain(lock, {round_up(std::max(step + lead_for(block_bytes), least_bytes), kSourceUnitBytes),
                    least_bytes, 2, block_bytes, Regions::Kind::kSlice});
  if (outcome.grew && !SourceCalls::this_thread_is_inside()) {
    next_step_bytes_ = std::min(next_step_bytes_ * 2, options_.slice_bytes);
  }
  return outcome;
}

// Obtains slices of so many bytes together, as far as the source has them.
void GrowthByRegions::preallocate_slices(Locked& lock, std::uint64_t bytes) {
  while (bytes >= 2 * kSourceUnitBytes) {
    const std::uint64_t before = pool_.counts.pool_bytes();
    if (!obtain_slice(lock, kSourceUnitBytes, bytes - kSourceUnitBytes).grew ||
        pool_.counts.pool_bytes() <= before) {
      return;
    }
    bytes = less(bytes, pool_.counts.pool_bytes() - before);
  }
}

// The size of the region when only `most` bytes may be obtained: no more than its blocks need, and
// no less than `least_bytes`.
std::uint64_t GrowthByRegions::Wish::within(std::uint64_t most) const {
  const std::uint64_t lead = block_bytes == 0 ? 0 : lead_for(block_bytes);
  const std::uint64_t usable = less(most, lead);
  const std::uint64_t filled =
      block_bytes == 0 ? most : round_up(usable - usable % block_bytes + lead, kSourceUnitBytes);
  return std::max(least_bytes, std::min(filled, most));
}

// Asks the source for a region, and for smaller ones while the budget or the source has too little.
Growth::Outcome GrowthByRegions::obtain(Locked& lock, const Wish& wish) {
  const auto smaller = [&](std::uint64_t than) {
    return wish.within(round_down(than - than / wish.back_off, kSourceUnitBytes));
  };
  // Another arena of the same device may change what the budget leaves: never ask for more than
  // that.
  const auto allowed = [&] { return round_down(pool_.budget.left(), kGranuleBytes); };
  const std::uint64_t least_bytes = wish.least_bytes;
  const std::uint64_t most = allowed();
  std::uint64_t bytes = wish.bytes <= most ? wish.bytes : wish.within(most);
  for (;;) {
    if (!pool_.budget.take(bytes)) {
      if (bytes == least_bytes) {
        return {false, Failure::kOverLimit, 0};
      }
      bytes = std::min(smaller(bytes), wish.within(allowed()));
      continue;
    }
    const std::uint64_t generation = pool_.generation;
    const MemorySource::Region region =
        pool_.calls.without_lock(lock, [&] { return pool_.source.obtain(bytes); });
    const bool ended = generation != pool_.generation;
    if (region.base != 0 && !ended && adopt(region, bytes, wish.kind)) {
      return {true, Failure::kNone, 0};
    }
    pool_.budget.give(bytes);
    if (region.base != 0) {
      if (!ended) {  // else it went with its context, and its address may be in use again
        const SourceCalls::Release releasing(pool_.calls);
        lock.unlock();
        const MemorySource::Extent back{region.base, bytes};
        pool_.source.release({&back, 1});
        lock.lock();
      }
      return {false, Failure::kHostMemory, 0};
    }
    if (!region.exhausted) {
      return {false, Failure::kSourceError, region.error};
    }
    // A smaller slice is not tried while regions for one block are unused: the caller gives those
    // back first.
    const bool is_least = bytes == least_bytes ||
                          (wish.kind == Regions::Kind::kSlice && pool_.regions.has_unused_own());
    if (is_least) {
      return {false, Failure::kExhausted, region.error};
    }
    bytes = smaller(bytes);
  }
}

bool GrowthByRegions::adopt(const MemorySource::Region& region, std::uint64_t bytes,
                            Regions::Kind kind) try {
  if (!pool_.regions.add(region.base, bytes, kind)) {
    return false;
  }
  const Regions::Region* added = pool_.regions.region_around(region.base);
  pool_.counts.memory_came(region.base, bytes, std::uint64_t{added->granules} * kGranuleBytes);
  pool_.write_resized();
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

std::uint64_t GrowthByRegions::bytes_of(const Numbers& regions) const {
  std::uint64_t bytes = 0;
  for (const std::uint16_t number : regions) {
    bytes += pool_.regions.all()[number].obtained_bytes;
  }
  return bytes;
}

// Chooses few of these regions, which together have at least `bytes` and hardly more. Chooses all
// of them if together they have less.
GrowthByRegions::Numbers GrowthByRegions::choose(Numbers from, std::uint64_t bytes) const {
  const auto bytes_of = [&](std::uint16_t number) {
    return pool_.regions.all()[number].obtained_bytes;
  };
  std::sort(from.begin(), from.end(),
            [&](std::uint16_t a, std::uint16_t b) { return bytes_of(a) < bytes_of(b); });
  Numbers chosen;
  while (bytes > 0 && !from.empty()) {
    auto next = std::lower_bound(
        from.begin(), from.end(), bytes,
        [&](std::uint16_t number, std::uint64_t least) { return bytes_of(number) < least; });
    next = next == from.end() ? std::prev(next) : next;
    chosen.push_back(*next);
    bytes -= std::min(bytes, bytes_of(*next));
    from.erase(next);
  }
  return chosen;
}

// Gives unused regions back. Throws std::bad_alloc and has changed nothing then.
std::uint64_t GrowthByRegions::release(Locked& lock, const Numbers& unused) {
  if (unused.empty()) {
    return 0;
  }
  std::vector<MemorySource::Extent> released;
  released.reserve(unused.size());
  const std::uint64_t bytes = bytes_of(unused);
  for (const std::uint16_t number : unused) {
    const Regions::Region& region = pool_.regions.all()[number];
    released.push_back({region.obtained_base, region.obtained_bytes});
    pool_.counts.memory_went(region.obtained_base, region.obtained_bytes,
                             std::uint64_t{region.granules} * kGranuleBytes);
    pool_.regions.remove(number);
  }
  pool_.write_resized();
  const SourceCalls::Release releasing(pool_.calls);
  lock.unlock();
  pool_.source.release(released);
  lock.lock();
  pool_.budget.release(bytes);
  return bytes;
}

// Regions for one block are given back first: they serve few other requests.
std::uint64_t GrowthByRegions::release_unused(Locked& lock, std::uint64_t bytes) {
  Numbers own;
  Numbers slices;
  for (const std::uint16_t number : pool_.regions.numbers()) {
    if (pool_.regions.is_unused(number)) {
      (pool_.regions.all()[number].own ? own : slices).push_back(number);
    }
  }
  Numbers chosen = choose(std::move(own), bytes);
  const Numbers more = choose(std::move(slices), less(bytes, bytes_of(chosen)));
  chosen.insert(chosen.end(), more.begin(), more.end());
  return release(lock, chosen);
}

std::uint64_t GrowthByRegions::release_beyond(Locked& lock, std::uint64_t keep_bytes) {
  std::uint64_t left = pool_.counts.pool_bytes();
  Numbers chosen;
  for (const std::uint16_t number : pool_.regions.numbers()) {
    const std::uint64_t bytes = pool_.regions.all()[number].obtained_bytes;
    if (pool_.regions.is_unused(number) && left - bytes >= keep_bytes) {
      chosen.push_back(number);
      left -= bytes;
    }
  }
  return release(lock, chosen);
}

std::uint64_t GrowthByRegions::unused_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const std::uint16_t number : pool_.regions.numbers()) {
    bytes += pool_.regions.is_unused(number) ? pool_.regions.all()[number].obtained_bytes : 0;
  }
  return bytes;
}

// Allocates in a slice that has room, or in an unused region for one block, which becomes a slice.
Regions::Placed GrowthByRegions::find_room_against_the_rule(std::uint64_t request) {
  if (const Regions::Placed placed = pool_.regions.allocate(request, Search::kEverywhere)) {
    return placed;
  }
  const std::uint64_t lost = pool_.regions.make_slice_of_own(block_bytes_for(request));
  pool_.counts.became_unusable(lost);
  pool_.write_resized();
  return lost == 0 ? Regions::Placed{} : pool_.regions.allocate(request, Search::kEverywhere);
}

}  // namespace cubfc::arena
