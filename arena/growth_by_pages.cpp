#include "arena/growth_by_pages.h"

#include <algorithm>

#include "arena/units.h"

namespace cubfc::arena {
namespace {

// At most so many bytes, and at most 1/kPartAhead of what the arena has, are mapped ahead of need.
constexpr std::uint64_t kMostAheadBytes = 256ULL << 20;
constexpr std::uint64_t kPartAhead = 16;

// The arena grows to 1/kPartIdle more than the peak of bytes in use. Beyond that, it takes memory
// from free blocks rather than new memory.
constexpr std::uint64_t kPartIdle = 10;

// The arena reserves so many times the addresses that its memory needs, so that there is always
// room to move memory to. Addresses are plenty.
constexpr std::uint64_t kTimesReserved = 4;

}  // namespace

void GrowthByPages::begin(const Options& options) noexcept {
  to_preallocate_ = options.preallocate_bytes;
  largest_bytes_ = options.largest_bytes;
}

Growth::Outcome GrowthByPages::grow(Locked& lock, std::uint64_t request) {
  const DropsSpare drops{*this, lock};
  return grow_with_spare(lock, request);
}

GrowthByPages::DropsSpare::~DropsSpare() {
  if (growth.pool_.source.spare_bytes() > 0) {
    growth.drop_spare(lock);
  }
}

// Tries to map more than is needed, then just what is needed. When the source has too little even
// for that, takes the pages that the source had, and memory of free blocks for the rest.
Growth::Outcome GrowthByPages::grow_with_spare(Locked& lock, std::uint64_t request) {
  const std::uint64_t block_bytes = block_bytes_for(request);
  std::uint64_t ahead = kLargestRequestBytes;
  bool is_dry = false;  // the source has less than is needed
  for (;;) {
    pool_.regions.reserve_for_moves(1);
    const Regions::Place place = pool_.regions.place_for(block_bytes, page_granules());
    if (place.vacancy == kNoBlock) {
      return reserve_addresses(lock, block_bytes);
    }
    const std::uint64_t least = std::uint64_t{place.granules} * kGranuleBytes;
    const std::uint64_t idle = idle_bytes(least, block_bytes);
    const std::uint64_t more =
        is_dry || idle > 0
            ? 0
            : std::min({ahead, bytes_ahead(), pool_.regions.bytes_of(place.vacancy)});
    const std::uint64_t bytes = std::max(least, more);
    const std::uint64_t left = round_down(pool_.budget.left(), page_);
    const std::uint64_t spare = pool_.source.spare_bytes();
    const std::uint64_t to_reuse = is_dry          ? less(least, std::min(spare, left))
                                   : bytes > least ? 0
                                                   : std::max(less(least, left), idle);
    Moves from = take_out_free_pages(to_reuse, place);
    const std::uint64_t reused = bytes_of(from);
    if (!pool_.budget.take(bytes - reused)) {
      put_back(from);
      if (bytes == least) {
        return {false, Failure::kOverLimit, 0};
      }
      ahead = std::max(least, std::min(bytes - page_, left));
      continue;
    }
    if (is_dry && reused == 0 && spare < least) {
      pool_.budget.give(bytes);
      return {false, Failure::kExhausted, 0};
    }
    const Outcome outcome = map(lock, place, bytes, from);
    if (outcome.failure != Failure::kExhausted || is_dry) {
      return outcome;
    }
    is_dry = bytes == least;
    ahead = std::max(least, std::min(pool_.source.spare_bytes(), bytes - page_));
  }
}

Growth::Outcome GrowthByPages::reserve_addresses(Locked& lock, std::uint64_t block_bytes) {
  const std::uint64_t all = std::min(largest_bytes_, kLargestRequestBytes / kTimesReserved);
  const std::uint64_t least = round_up(block_bytes + page_, page_);
  std::uint64_t bytes = std::max(round_up(kTimesReserved * all, page_), least);
  const std::uint64_t generation = pool_.generation;
  MemorySource::Region region =
      pool_.calls.without_lock(lock, [&] { return pool_.source.reserve(bytes); });
  while (region.base == 0 && bytes > least && generation == pool_.generation) {
    bytes = std::max(round_down(bytes / 4, page_), least);  // there may be a limit of addresses
    region = pool_.calls.without_lock(lock, [&] { return pool_.source.reserve(bytes); });
  }
  if (region.base == 0) {
    return {false, Failure::kSourceError, region.error};
  }
  if (generation == pool_.generation && !pool_.regions.add_vacant(region.base, bytes)) {
    return {false, Failure::kTooLarge, 0};
  }
  return {};
}

// How many of the needed bytes are taken from free blocks although the source may have more. The
// arena's memory may exceed the peak of bytes in use by a tenth and a page; what it would have
// beyond that is taken from free blocks. 0 if the arena is about to preallocate, or if the source
// has preallocated enough.
std::uint64_t GrowthByPages::idle_bytes(std::uint64_t least_bytes,
                                        std::uint64_t block_bytes) const {
  const std::uint64_t most =
      std::max(pool_.counts.peak_bytes_in_use(), pool_.counts.bytes_in_use() + block_bytes);
  const std::uint64_t enough = most + most / kPartIdle + page_;
  const std::uint64_t would_be = pool_.counts.pool_bytes() + least_bytes;
  const bool is_ahead = to_preallocate_ > 0 || pool_.source.bytes_ahead() >= least_bytes;
  return is_ahead || would_be <= enough ? 0
                                        : std::min(least_bytes, round_up(would_be - enough, page_));
}

std::uint64_t GrowthByPages::bytes_ahead() const {
  if (pool_.calls.anybody_grows()) {
    return 0;  // another thread is growing the arena, or a hook inside the source is
  }
  return std::max(
      round_up(to_preallocate_, page_),
      round_down(std::min(pool_.counts.pool_bytes() / kPartAhead, kMostAheadBytes), page_));
}

// Takes parts out of free blocks, in whole pages, up to `most_bytes` together. Live and retired
// blocks keep their pages, and so does the free memory that `place` counts on. If it throws
// std::bad_alloc, nothing has changed.
GrowthByPages::Moves GrowthByPages::take_out_free_pages(std::uint64_t most_bytes,
                                                        const Regions::Place& place) {
  Moves moves;
  if (most_bytes == 0) {
    return moves;
  }
  const std::uint32_t page = page_granules();
  struct Part {
    BlockIndex block;
    std::uint32_t start;
    std::uint32_t granules;
  };
  std::vector<Part> parts;
  std::uint64_t missing = most_bytes / kGranuleBytes;
  pool_.regions.for_each_free_from(page, [&](BlockIndex index) {
    const Block& block = pool_.regions.block(index);
    const bool is_behind = place.vacancy != kNoBlock && block.previous == place.vacancy;
    const bool is_before = place.vacancy != kNoBlock && block.next == place.vacancy;
    const std::uint64_t start =
        round_up(is_behind ? std::max<std::uint64_t>(place.end, block.start) : block.start, page);
    const std::uint64_t end = round_down(block.end(), page);
    if (missing > 0 && end > start && !is_before) {
      const std::uint64_t granules = std::min(end - start, missing);
      parts.push_back(
          {index, static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(granules)});
      missing -= granules;
    }
  });
  moves.reserve(parts.size());
  pool_.regions.reserve_for_moves(static_cast<std::uint32_t>(parts.size()) + 1);
  for (const Part& part : parts) {
    const BlockIndex taken = pool_.regions.take_out(part.block, part.start, part.granules);
    moves.push_back({taken, pool_.regions.address_of(taken), pool_.regions.bytes_of(taken)});
  }
  return moves;
}

std::uint64_t GrowthByPages::bytes_of(const Moves& moves) {
  std::uint64_t bytes = 0;
  for (const Move& move : moves) {
    bytes += move.bytes;
  }
  return bytes;
}

void GrowthByPages::put_back(const Moves& moves) {
  for (const Move& move : moves) {
    pool_.regions.settle(move.block, BlockState::kFree);
  }
}

// Unmaps the memory of parts that were taken out. A part becomes vacant, or free again when the
// source fails to unmap it. Returns the bytes that were unmapped; they still count in the budget,
// but no longer in the arena.
std::uint64_t GrowthByPages::unmap(Locked& lock, Moves& moves) {
  if (moves.empty()) {
    return 0;
  }
  const std::uint64_t all = bytes_of(moves);
  pool_.counts.memory_leaves(all);
  const std::uint64_t generation = pool_.generation;
  pool_.calls.without_lock(lock, [&] {
    for (Move& move : moves) {
      move.unmapped = pool_.source.unmap(move.base, move.bytes);
    }
    return true;
  });
  if (generation != pool_.generation) {
    return all;
  }
  std::uint64_t still_there = 0;
  for (const Move& move : moves) {
    pool_.regions.settle(move.block, move.unmapped ? BlockState::kVacant : BlockState::kFree);
    still_there += move.unmapped ? 0 : move.bytes;
    if (move.unmapped) {
      pool_.counts.memory_left(move.base, move.bytes);
    }
  }
  pool_.counts.memory_stays(still_there);
  pool_.write_resized();
  return all - still_there;
}

// Maps `bytes` at the place, after unmapping the parts in `from`. Precondition: the budget has
// granted `bytes` less the bytes in `from`.
Growth::Outcome GrowthByPages::map(Locked& lock, const Regions::Place& place, std::uint64_t bytes,
                                   Moves& from) {
  const BlockIndex block =
      pool_.regions.take_out(place.vacancy, pool_.regions.block(place.vacancy).start,
                             static_cast<std::uint32_t>(bytes / kGranuleBytes));
  const Address base = pool_.regions.address_of(block);
  const std::uint64_t generation = pool_.generation;
  const std::uint64_t taken_out = bytes_of(from);
  const std::uint64_t unmapped = unmap(lock, from);
  std::uint64_t granted = bytes - taken_out + unmapped;
  MemorySource::Region mapped;
  Failure failure = Failure::kOverLimit;
  if (generation == pool_.generation && (granted == bytes || pool_.budget.take(bytes - granted))) {
    granted = bytes;
    mapped = pool_.calls.without_lock(lock, [&] { return pool_.source.map(base, bytes); });
    failure = mapped.exhausted ? Failure::kExhausted : Failure::kSourceError;
  }
  if (generation != pool_.generation) {
    pool_.budget.give(granted);
    if (mapped.base != 0) {
      pool_.calls.without_lock(lock, [&] { return pool_.source.unmap(base, bytes); });
    }
    return {false, Failure::kSourceError, mapped.error};
  }
  if (mapped.base == 0) {
    pool_.budget.give(granted);
    pool_.regions.settle(block, BlockState::kVacant);
    return {false, failure, mapped.error};
  }
  pool_.regions.settle(block, BlockState::kFree);
  to_preallocate_ = 0;
  pool_.counts.memory_came(base, bytes, bytes);
  pool_.write_resized();
  return {true, Failure::kNone, 0};
}

// Has the source release its spare memory: pages that were unmapped or created and have not been
// mapped again.
void GrowthByPages::drop_spare(Locked& lock) {
  pool_.calls.without_lock(lock, [&] {
    pool_.source.drop_spare();
    return true;
  });
}

// Gives whole pages of free blocks back, up to `most_bytes` together.
std::uint64_t GrowthByPages::release(Locked& lock, std::uint64_t most_bytes) {
  Moves moves = take_out_free_pages(most_bytes, {});
  const SourceCalls::Release releasing(pool_.calls);
  const std::uint64_t bytes = unmap(lock, moves);
  if (bytes > 0) {
    drop_spare(lock);
    pool_.budget.release(bytes);
  }
  return bytes;
}

std::uint64_t GrowthByPages::release_unused(Locked& lock, std::uint64_t bytes) {
  return release(lock, round_up(std::min(bytes, pool_.counts.pool_bytes()), page_));
}

std::uint64_t GrowthByPages::release_beyond(Locked& lock, std::uint64_t keep_bytes) {
  return release(lock, round_down(less(pool_.counts.pool_bytes(), keep_bytes), page_));
}

std::uint64_t GrowthByPages::unused_bytes() const noexcept {
  std::uint64_t bytes = 0;
  const std::uint32_t page = page_granules();
  pool_.regions.for_each_free_from(page, [&](BlockIndex index) {
    const Block& block = pool_.regions.block(index);
    bytes += less(round_down(block.end(), page), round_up(block.start, page)) * kGranuleBytes;
  });
  return bytes;
}

}  // namespace cubfc::arena
