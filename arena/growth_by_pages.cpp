// How an arena grows over a source with pages: it reserves one range of addresses, maps memory
// where a block then fits, and takes memory from free blocks elsewhere when there is no more.
// Growth is contiguous, so that free blocks coalesce across it; and fragmentation can make no
// request fail while the limit, less the pages in which live and retired blocks lie, is enough for
// it.
#include <algorithm>

#include "arena/arena.h"

namespace cubfc::arena {
namespace {

// What is mapped ahead of need is no more than this, nor than this part of what there is.
constexpr std::uint64_t kMostAheadBytes = 256ULL << 20;
constexpr std::uint64_t kPartAhead = 16;

// What is kept beyond what was ever in use, before memory of free blocks is preferred to new
// memory.
constexpr std::uint64_t kPartIdle = 10;

// Addresses are plenty. With several times what they are for, there is room to move memory to.
constexpr std::uint64_t kTimesReserved = 4;

}  // namespace

// A part of a region on its way between free and vacant.
struct Arena::Move {
  BlockIndex block;
  Address base;
  std::uint64_t bytes;
  bool unmapped = false;
};

// First more than is needed, while there is plenty; then just that; then with memory of free
// blocks.
Arena::Growth Arena::map_for(Locked& lock, std::uint64_t block_bytes) {
  const std::uint64_t page = source_.page_bytes();
  std::uint64_t ahead = kLargestRequestBytes;
  bool is_dry = false;  // the source has not what is needed
  for (;;) {
    regions_.reserve_for_moves(1);
    const Regions::Place place =
        regions_.place_for(block_bytes, static_cast<std::uint32_t>(page / kGranuleBytes));
    if (place.vacancy == kNoBlock) {
      return reserve_addresses(lock, block_bytes);
    }
    const std::uint64_t least = std::uint64_t{place.granules} * kGranuleBytes;
    const std::uint64_t idle = idle_bytes(least, block_bytes);
    const std::uint64_t more =
        is_dry || idle > 0 ? 0
                           : std::min({ahead, bytes_ahead(page), regions_.bytes_of(place.vacancy)});
    const std::uint64_t bytes = std::max(least, more);
    const std::uint64_t left = round_down(budget_.left(), page);
    const std::uint64_t to_reuse = is_dry          ? least
                                   : bytes > least ? 0
                                                   : std::max(least - std::min(least, left), idle);
    Moves from;
    const std::uint64_t reused = take_out_free_pages(to_reuse, place, from);
    if (!budget_.take(bytes - reused)) {
      put_back(from);
      if (bytes == least) {
        return {false, Failure::kOverLimit, 0};
      }
      ahead = std::max(least, std::min(bytes - page, left));
      continue;
    }
    if (is_dry && reused == 0) {
      budget_.give(bytes);
      return {false, Failure::kExhausted, 0};
    }
    const Growth growth = map(lock, place, bytes, from);
    if (growth.failure != Failure::kExhausted || is_dry) {
      return growth;
    }
    is_dry = bytes == least;
    ahead = std::max(least, round_down(bytes / 10 * 9, page));
  }
}

Arena::Growth Arena::reserve_addresses(Locked& lock, std::uint64_t block_bytes) {
  const std::uint64_t page = source_.page_bytes();
  const std::uint64_t all = std::min(options_.largest_bytes, kLargestRequestBytes / kTimesReserved);
  const std::uint64_t bytes = round_up(std::max(kTimesReserved * all, block_bytes + page), page);
  const std::uint64_t generation = generation_;
  const MemorySource::Region region = without_lock(lock, [&] { return source_.reserve(bytes); });
  if (region.base == 0) {
    return {false, Failure::kSourceError, region.error};
  }
  if (generation == generation_ && !regions_.add_vacant(region.base, bytes)) {
    return {false, Failure::kTooLarge, 0};
  }
  return {};
}

// Of what is needed, what is better taken from free blocks, although there may be more: the arena
// would have more than a tenth and a page beyond the most that was ever in use. Nothing, as long as
// the memory has been taken ahead anyway.
std::uint64_t Arena::idle_bytes(std::uint64_t least_bytes, std::uint64_t block_bytes) const {
  const std::uint64_t page = source_.page_bytes();
  const std::uint64_t most = std::max(peak_granules_in_use_ * kGranuleBytes,
                                      granules_in_use_ * kGranuleBytes + block_bytes);
  const std::uint64_t enough = most + most / kPartIdle + page;
  const std::uint64_t would_be = pool_bytes_ + least_bytes;
  const bool is_ahead = to_preallocate_ > 0 || source_.bytes_ahead() >= least_bytes;
  return is_ahead || would_be <= enough ? 0
                                        : std::min(least_bytes, round_up(would_be - enough, page));
}

std::uint64_t Arena::bytes_ahead(std::uint64_t page) const {
  if (growing_ > 0) {
    return 0;  // another thread is at it, or a hook of the source's
  }
  return std::max(round_up(to_preallocate_, page),
                  round_down(std::min(pool_bytes_ / kPartAhead, kMostAheadBytes), page));
}

// Takes free memory out (live and retired blocks keep their pages), whole pages, up to
// `most_bytes`, but none that the place counts on. Returns how much. Throws std::bad_alloc and has
// changed nothing then.
std::uint64_t Arena::take_out_free_pages(std::uint64_t most_bytes, const Regions::Place& place,
                                         Moves& moves) {
  if (most_bytes == 0) {
    return 0;
  }
  const auto page = static_cast<std::uint32_t>(source_.page_bytes() / kGranuleBytes);
  struct Part {
    BlockIndex block;
    std::uint32_t start;
    std::uint32_t granules;
  };
  std::vector<Part> parts;
  std::uint64_t missing = most_bytes / kGranuleBytes;
  regions_.for_each_free_from(page, [&](BlockIndex index) {
    const Block& block = regions_.block(index);
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
  regions_.reserve_for_moves(static_cast<std::uint32_t>(parts.size()) + 1);
  for (const Part& part : parts) {
    const BlockIndex taken = regions_.take_out(part.block, part.start, part.granules);
    moves.push_back({taken, regions_.address_of(taken), regions_.bytes_of(taken)});
  }
  return most_bytes - missing * kGranuleBytes;
}

std::uint64_t Arena::bytes_of(const Moves& moves) {
  std::uint64_t bytes = 0;
  for (const Move& move : moves) {
    bytes += move.bytes;
  }
  return bytes;
}

void Arena::put_back(const Moves& moves) {
  for (const Move& move : moves) {
    regions_.settle(move.block, BlockState::kFree);
  }
}

// Takes the memory away from what was taken out; where the source fails, it is free again. What was
// unmapped is of the budget still, but not of the arena. Returns its bytes.
std::uint64_t Arena::unmap(Locked& lock, Moves& moves) {
  if (moves.empty()) {
    return 0;
  }
  const std::uint64_t all = bytes_of(moves);
  pool_bytes_ -= all;
  usable_bytes_ -= all;
  const std::uint64_t generation = generation_;
  without_lock(lock, [&] {
    for (Move& move : moves) {
      move.unmapped = source_.unmap(move.base, move.bytes);
    }
    return true;
  });
  if (generation != generation_) {
    return all;
  }
  std::uint64_t still_there = 0;
  for (const Move& move : moves) {
    regions_.settle(move.block, move.unmapped ? BlockState::kVacant : BlockState::kFree);
    still_there += move.unmapped ? 0 : move.bytes;
    if (move.unmapped && recorder_ != nullptr) {
      recorder_->shrank(move.base, move.bytes);
    }
  }
  pool_bytes_ += still_there;
  usable_bytes_ += still_there;
  write_resized();
  return all - still_there;
}

// Precondition: the budget has granted `bytes` less what is taken out of free blocks.
Arena::Growth Arena::map(Locked& lock, const Regions::Place& place, std::uint64_t bytes,
                         Moves& from) {
  const BlockIndex block = regions_.take_out(place.vacancy, regions_.block(place.vacancy).start,
                                             static_cast<std::uint32_t>(bytes / kGranuleBytes));
  const Address base = regions_.address_of(block);
  const std::uint64_t generation = generation_;
  const std::uint64_t taken_out = bytes_of(from);
  const std::uint64_t unmapped = unmap(lock, from);
  std::uint64_t granted = bytes - taken_out + unmapped;
  MemorySource::Region mapped;
  Failure failure = Failure::kOverLimit;
  if (generation == generation_ && (granted == bytes || budget_.take(bytes - granted))) {
    granted = bytes;
    mapped = without_lock(lock, [&] { return source_.map(base, bytes); });
    failure = mapped.exhausted ? Failure::kExhausted : Failure::kSourceError;
  }
  const auto drop_spare = [&] {
    source_.drop_spare();
    return true;
  };
  if (generation != generation_) {
    budget_.give(granted);
    without_lock(lock, [&] {
      if (mapped.base != 0) {
        source_.unmap(base, bytes);
      }
      return drop_spare();
    });
    return {false, Failure::kSourceError, mapped.error};
  }
  if (mapped.base == 0) {
    budget_.give(granted);
    regions_.settle(block, BlockState::kVacant);
    without_lock(lock, drop_spare);
    return {false, failure, mapped.error};
  }
  regions_.settle(block, BlockState::kFree);
  to_preallocate_ = 0;
  ++regions_obtained_;
  usable_bytes_ += bytes;
  pool_bytes_ += bytes;
  count_pool_peaks();
  if (recorder_ != nullptr) {
    recorder_->grew(base, bytes);
  }
  write_resized();
  if (!from.empty()) {
    without_lock(lock, drop_spare);
  }
  return {true, Failure::kNone, 0};
}

// `most_bytes` is whole pages.
std::uint64_t Arena::unmap_unused(Locked& lock, std::uint64_t most_bytes) {
  Moves moves;
  take_out_free_pages(most_bytes, {}, moves);
  ++releasing_;
  const std::uint64_t bytes = unmap(lock, moves);
  if (bytes > 0) {
    without_lock(lock, [&] {
      source_.drop_spare();
      return true;
    });
    budget_.release(bytes);
  }
  --releasing_;
  return bytes;
}

}  // namespace cubfc::arena
