// How an arena grows over a source that gives regions, and which ones it gives back. Slices hold
// many blocks, the first little, each next one twice as large, so that a program that needs a
// little more does not take a lot; a large request has a region of its own.
#include <algorithm>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "arena/arena.h"

namespace cubfc::arena {

// A region for the request, and what else is due. Where there is no room for a slice's lead, one
// that holds just the request.
Arena::Growth Arena::obtain_for(Locked& lock, std::uint64_t bytes) {
  const std::uint64_t block_bytes = block_bytes_for(bytes);
  const std::uint64_t whole_units = round_up(bytes, kSourceUnitBytes);
  const bool takes_less =
      whole_units < round_up(Regions::slice_bytes_for(block_bytes), kSourceUnitBytes);
  const auto needs_less = [&](const Growth& growth) {
    return growth.failure == Failure::kOverLimit ||
           (growth.failure == Failure::kExhausted && takes_less);
  };
  if (to_preallocate_ > 0 && options_.whole && !this_thread_obtains_ && !has_own_region(bytes)) {
    if (const Growth growth = preallocate_whole(lock, Regions::slice_bytes_for(block_bytes));
        !needs_less(growth)) {
      return growth;
    }
  }
  const std::uint64_t all = this_thread_obtains_ ? 0 : std::exchange(to_preallocate_, 0);
  const std::uint64_t before = pool_bytes_;
  // No larger than that the request may have it.
  const std::uint64_t least = round_up(bytes, kGranuleBytes);
  const Wish own{whole_units - bytes <= bytes / 8 ? whole_units : least, least, 1, 0,
                 Regions::Kind::kOwn};
  Growth growth{false, Failure::kOverLimit, 0};
  if (!has_own_region(bytes)) {
    growth = obtain_slice(lock, block_bytes, kLargestRequestBytes);
  }
  if (needs_less(growth)) {
    growth = obtain(lock, own);
  }
  if (!growth.grew) {
    to_preallocate_ = std::max(to_preallocate_, all);
  } else if (all > 0 && !options_.whole) {
    preallocate_slices(lock, all - std::min(all, pool_bytes_ - std::min(pool_bytes_, before)));
  }
  return growth;
}

// The next slice, which several blocks of this size fill, as programs ask for the same size again.
// Its lead comes on top.
Arena::Growth Arena::obtain_slice(Locked& lock, std::uint64_t block_bytes,
                                  std::uint64_t most_bytes) {
  const std::uint64_t least_bytes = Regions::slice_bytes_for(block_bytes);
  const std::uint64_t most = std::min(next_step_bytes_, most_bytes);
  const std::uint64_t step =
      this_thread_obtains_ ? least_bytes : std::max(most - most % block_bytes, block_bytes);
  const Growth growth = obtain(
      lock,
      {round_up(std::max(step + Regions::lead_for(block_bytes), least_bytes), kSourceUnitBytes),
       least_bytes, 2, block_bytes, Regions::Kind::kSlice});
  if (growth.grew && !this_thread_obtains_) {
    next_step_bytes_ = std::min(next_step_bytes_ * 2, options_.slice_bytes);
  }
  return growth;
}

// As far as the source has them.
void Arena::preallocate_slices(Locked& lock, std::uint64_t bytes) {
  while (bytes >= 2 * kSourceUnitBytes) {
    const std::uint64_t before = pool_bytes_;
    if (!obtain_slice(lock, kSourceUnitBytes, bytes - kSourceUnitBytes).grew ||
        pool_bytes_ <= before) {
      return;
    }
    bytes -= std::min(bytes, pool_bytes_ - before);
  }
}

// In one region. When the source has less, a tenth less is asked for until it gives, as XLA does.
Arena::Growth Arena::preallocate_whole(Locked& lock, std::uint64_t least_bytes) {
  const std::uint64_t all = std::exchange(to_preallocate_, 0);  // no other thread does it, too
  const std::uint64_t bytes =
      round_down(std::min(all, Regions::slice_bytes_for(kLargestRequestBytes)), kGranuleBytes);
  const Growth growth =
      obtain(lock, {std::max(bytes, least_bytes), least_bytes, 10, 0, Regions::Kind::kSlice});
  if (!growth.grew) {
    to_preallocate_ = all;
  }
  return growth;
}

// As much of a region as fits into so many bytes, and no more than its blocks need.
std::uint64_t Arena::Wish::within(std::uint64_t most) const {
  const std::uint64_t lead = block_bytes == 0 ? 0 : Regions::lead_for(block_bytes);
  const std::uint64_t usable = most - std::min(most, lead);
  const std::uint64_t filled =
      block_bytes == 0 ? most : round_up(usable - usable % block_bytes + lead, kSourceUnitBytes);
  return std::max(least_bytes, std::min(filled, most));
}

// Asks the source for a region, for smaller ones while it has too little.
Arena::Growth Arena::obtain(Locked& lock, const Wish& wish) {
  const auto less = [&](std::uint64_t than) {
    return wish.within(round_down(than - than / wish.back_off, kSourceUnitBytes));
  };
  // What is left may change under another arena of the same device: never more than that.
  const auto allowed = [&] { return round_down(budget_.left(), kGranuleBytes); };
  const std::uint64_t least_bytes = wish.least_bytes;
  const std::uint64_t most = allowed();
  std::uint64_t bytes = wish.bytes <= most ? wish.bytes : wish.within(most);
  for (;;) {
    if (!budget_.take(bytes)) {
      if (bytes == least_bytes) {
        return {false, Failure::kOverLimit, 0};
      }
      bytes = std::min(less(bytes), wish.within(allowed()));
      continue;
    }
    const std::uint64_t generation = generation_;
    const MemorySource::Region region = without_lock(lock, [&] { return source_.obtain(bytes); });
    const bool ended = generation != generation_;
    if (region.base != 0 && !ended && adopt(region, bytes, wish.kind)) {
      return {true, Failure::kNone, 0};
    }
    budget_.give(bytes);
    if (region.base != 0) {
      if (!ended) {  // else it went with its context, and its address may be somebody else's
        lock.unlock();
        const MemorySource::Extent back{region.base, bytes};
        source_.release({&back, 1});
        lock.lock();
      }
      return {false, Failure::kHostMemory, 0};
    }
    if (!region.exhausted) {
      return {false, Failure::kSourceError, region.error};
    }
    // Rather than a smaller slice: regions of one block's, once they are given back.
    const bool is_least =
        bytes == least_bytes || (wish.kind == Regions::Kind::kSlice && regions_.has_unused_own());
    if (is_least) {
      return {false, Failure::kExhausted, region.error};
    }
    bytes = less(bytes);
  }
}

bool Arena::adopt(const MemorySource::Region& region, std::uint64_t bytes, Regions::Kind kind) try {
  if (!regions_.add(region.base, bytes, kind)) {
    return false;
  }
  const Regions::Region* added = regions_.region_around(region.base);
  ++regions_obtained_;
  usable_bytes_ += std::uint64_t{added->granules} * kGranuleBytes;
  pool_bytes_ += bytes;
  count_pool_peaks();
  if (recorder_ != nullptr) {
    recorder_->grew(region.base, bytes);
  }
  write_resized();
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

std::uint64_t Arena::bytes_of(const std::vector<std::uint16_t>& regions) const {
  std::uint64_t bytes = 0;
  for (const std::uint16_t number : regions) {
    bytes += regions_.all()[number].obtained_bytes;
  }
  return bytes;
}

// Few regions of these that are together as large as `bytes`, hardly larger; all if they are not.
std::vector<std::uint16_t> Arena::choose(std::vector<std::uint16_t> from,
                                         std::uint64_t bytes) const {
  const auto bytes_of = [&](std::uint16_t number) { return regions_.all()[number].obtained_bytes; };
  std::sort(from.begin(), from.end(),
            [&](std::uint16_t a, std::uint16_t b) { return bytes_of(a) < bytes_of(b); });
  std::vector<std::uint16_t> chosen;
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

// Throws std::bad_alloc and has changed nothing then.
std::uint64_t Arena::release(Locked& lock, const std::vector<std::uint16_t>& unused) {
  if (unused.empty()) {
    return 0;
  }
  std::vector<MemorySource::Extent> released;
  released.reserve(unused.size());
  const std::uint64_t bytes = bytes_of(unused);
  pool_bytes_ -= bytes;
  for (const std::uint16_t number : unused) {
    const Regions::Region& region = regions_.all()[number];
    released.push_back({region.obtained_base, region.obtained_bytes});
    usable_bytes_ -= std::uint64_t{region.granules} * kGranuleBytes;
    if (recorder_ != nullptr) {
      recorder_->shrank(region.obtained_base, region.obtained_bytes);
    }
    regions_.remove(number);
  }
  write_resized();
  ++releasing_;
  lock.unlock();
  source_.release(released);
  lock.lock();
  budget_.release(bytes);
  --releasing_;
  source_ended_.notify_all();
  return bytes;
}

}  // namespace cubfc::arena
