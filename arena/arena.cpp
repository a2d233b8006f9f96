#include "arena/arena.h"

#include <algorithm>
#include <new>
#include <utility>

namespace cubfc::arena {

Arena::Arena(MemorySource& source, Budget& budget, const Options& options) : pool_(source, budget) {
  set_options(options);
}

Growth& Arena::way_to_grow(const Options& options) {
  if (pool_.source.page_bytes() > 0) {
    return by_pages_;
  }
  return options.whole ? static_cast<Growth&>(in_one_region_) : by_regions_;
}

void Arena::set_options(const Options& options) {
  growth_ = &way_to_grow(options);
  growth_->begin(options);
  largest_possible_ = std::min(kLargestRequestBytes, options.largest_bytes);
  largest_in_slice_ = std::min(largest_possible_, growth_->largest_in_slice());
}

void Arena::begin(const Options& options) noexcept {
  const std::lock_guard lock(pool_.lock);
  set_options(options);
}

void Arena::observe(Figures& figures, Observer& observer, const Figure& peaks) noexcept {
  const std::lock_guard lock(pool_.lock);
  pool_.counts.observe(figures, observer, peaks);
}

// Returns the block's address.
inline Address Arena::count_allocation(const Regions::Placed& placed, std::uint64_t bytes,
                                       Caller caller) {
  return pool_.counts.allocated(pool_.regions.block(placed.index), placed.address, bytes, caller);
}

// Precondition: is_possible(bytes).
inline Regions::Placed Arena::find_room(std::uint64_t bytes, Search search) {
  const Regions::Placed placed =
      is_plain(bytes) ? pool_.regions.allocate(bytes, search) : Regions::Placed{};
  return placed ? placed : pool_.regions.allocate_own(bytes);
}

// Most allocations need no more than this function, so `flatten` inlines all that it calls.
[[gnu::flatten]] Address Arena::allocate_without_growth(std::uint64_t bytes, Caller caller) noexcept
    try {
  const std::lock_guard lock(pool_.lock);
  if (is_plain(bytes)) [[likely]] {
    if (const Regions::Placed placed = pool_.regions.allocate(bytes, Search::kBounded)) [[likely]] {
      return count_allocation(placed, bytes, caller);
    }
  }
  const Regions::Placed own =
      is_possible(bytes) ? pool_.regions.allocate_own(bytes) : Regions::Placed{};
  return own ? count_allocation(own, bytes, caller) : 0;
} catch (const std::bad_alloc&) {
  return 0;
}

Allocation Arena::allocate_with_growth(std::uint64_t bytes, Caller caller) noexcept {
  Locked lock(pool_.lock);
  Allocation result;
  Growth::Outcome growth{false, Failure::kTooLarge, 0};
  try {
    // The first pass only searches: a hole that fits saves growth.
    for (bool look_first = true; is_possible(bytes); look_first = false) {
      // After growth, and when the arena cannot grow, every hole is searched: the one that fits may
      // be anywhere in its class.
      const Search search = look_first && !source_is_dry_ ? Search::kBounded : Search::kEverywhere;
      if (!look_first) {
        growth = grow(lock, bytes);
        result.grew = result.grew || growth.grew;
        source_is_dry_ = growth.failure != Failure::kNone;
      }
      // Other threads may have taken the new room, or have freed enough for this request.
      if (const Regions::Placed placed = find_room(bytes, search)) {
        result.address = count_allocation(placed, bytes, caller);
        return result;
      }
      if (!look_first && growth.failure != Failure::kNone) {
        break;
      }
    }
  } catch (const std::bad_alloc&) {
    growth.failure = Failure::kHostMemory;
  }
  result.failure = growth.failure;
  result.source_error = growth.source_error;
  return result;
}

Address Arena::allocate_against_the_rule(std::uint64_t bytes, Caller caller) noexcept try {
  const std::lock_guard lock(pool_.lock);
  const Regions::Placed placed =
      is_possible(bytes) ? growth_->find_room_against_the_rule(bytes) : Regions::Placed{};
  return placed ? count_allocation(placed, bytes, caller) : 0;
} catch (const std::bad_alloc&) {
  return 0;
}

std::uint64_t Arena::growth_for(std::uint64_t bytes) const noexcept {
  const std::lock_guard lock(pool_.lock);
  return growth_->bytes_for(bytes);
}

void Arena::count_failure() noexcept {
  const std::lock_guard lock(pool_.lock);
  pool_.counts.failed();
  pool_.write_resized();
}

// Makes room for a request, or says why there is none. Unlocks while it calls the source, so
// another thread may have taken the room when this returns: the caller must search again.
Growth::Outcome Arena::grow(Locked& lock, std::uint64_t bytes) {
  if (wait_for_growth(lock)) {
    return {};
  }
  Growth::Outcome growth = growth_->grow(lock, bytes);
  if ((growth.failure == Failure::kOverLimit || growth.failure == Failure::kExhausted) &&
      pool_.counts.free_bytes() >= block_bytes_for(bytes)) {
    growth.failure = Failure::kFragmented;
  }
  return growth;
}

// A thread that finds no room while another thread is growing the arena waits for that thread, so
// that the two do not both preallocate. True when the arena has grown meanwhile.
bool Arena::wait_for_growth(Locked& lock) {
  const auto has_grown = [&, before = pool_.counts.regions_obtained()] {
    return pool_.counts.regions_obtained() != before;
  };
  return pool_.calls.anybody_grows() && !SourceCalls::this_thread_is_inside() &&
         pool_.calls.wait(lock, [&] { return !pool_.calls.anybody_grows() || has_grown(); }) &&
         has_grown();
}

bool Arena::wait_for_others() noexcept {
  Locked lock(pool_.lock);
  const auto has_changed = [&, obtained = pool_.counts.regions_obtained(),
                            releases = pool_.budget.releases()] {
    return pool_.counts.regions_obtained() != obtained || pool_.budget.releases() != releases;
  };
  if (SourceCalls::this_thread_is_inside() || !pool_.calls.anybody_calls()) {
    return false;
  }
  pool_.calls.wait(lock, [&] { return has_changed() || !pool_.calls.anybody_calls(); });
  return has_changed();
}

std::uint64_t Arena::release_unused(std::uint64_t bytes) noexcept try {
  Locked lock(pool_.lock);
  return growth_->release_unused(lock, bytes);
} catch (const std::bad_alloc&) {
  return 0;  // nothing was changed
}

std::uint64_t Arena::release_beyond(std::uint64_t keep_bytes) noexcept try {
  Locked lock(pool_.lock);
  return growth_->release_beyond(lock, keep_bytes);
} catch (const std::bad_alloc&) {
  return 0;
}

void Arena::watch() noexcept {
  const std::lock_guard lock(pool_.lock);
  pool_.counts.watch();
}

std::uint64_t Arena::unused_bytes() const noexcept {
  const std::lock_guard lock(pool_.lock);
  return growth_->unused_bytes();
}

[[gnu::flatten]] bool Arena::free(Address address) noexcept {
  const std::lock_guard lock(pool_.lock);
  const BlockIndex index = pool_.regions.retire(address);
  if (index == kNoBlock) {
    return false;
  }
  pool_.counts.freed(pool_.regions, index);
  pool_.regions.reclaim(index);
  return true;
}

std::optional<RetiredBlock> Arena::retire(Address address) noexcept {
  const std::lock_guard lock(pool_.lock);
  const BlockIndex index = pool_.regions.retire(address);
  if (index == kNoBlock) {
    return std::nullopt;
  }
  pool_.counts.retired(pool_.regions, index);
  return RetiredBlock{index, pool_.regions.bytes_of(index), pool_.generation};
}

// Makes a retired block free. Precondition: the lock is held.
inline void Arena::make_free(BlockIndex index) {
  pool_.counts.reclaimed(pool_.regions.block(index));
  pool_.regions.reclaim(index);
}

void Arena::reclaim(const RetiredBlock& block) noexcept {
  const std::lock_guard lock(pool_.lock);
  if (block.generation != pool_.generation) {
    return;  // its memory went with its context
  }
  if (pool_.counts.recorder() != nullptr) [[unlikely]] {
    pool_.counts.record_reclaimed(pool_.regions, block.index);
  }
  make_free(block.index);
}

[[gnu::flatten]] Arena::Gathered Arena::gather(Address address,
                                               std::uint64_t free_beside) noexcept {
  const std::lock_guard lock(pool_.lock);
  const BlockIndex index = pool_.regions.retire(address);
  if (index == kNoBlock) [[unlikely]] {
    return Gathered::kNot;
  }
  pool_.counts.retired(pool_.regions, index);
  Block& block = pool_.regions.block(index);
  block.use.next_gathered = std::exchange(gathered_.first, index);
  ++gathered_.count;
  gathered_.bytes += std::uint64_t{block.granules} * kGranuleBytes;
  Headroom room = pool_.counts.room();
  room.free += free_beside;
  return is_epoch_full(gathered_.count, gathered_.bytes, room) ? Gathered::kFull : Gathered::kYes;
}

GatheredBlocks Arena::take_gathered() noexcept {
  const std::lock_guard lock(pool_.lock);
  gathered_.generation = pool_.generation;
  return std::exchange(gathered_, {});
}

bool Arena::has_gathered() const noexcept {
  const std::lock_guard lock(pool_.lock);
  return gathered_.count > 0;
}

[[gnu::flatten]] void Arena::reclaim(const GatheredBlocks& blocks) noexcept {
  for (BlockIndex index = blocks.first; index != kNoBlock;) {
    const std::lock_guard lock(pool_.lock);
    if (blocks.generation != pool_.generation) {
      return;  // their memory went with their context
    }
    if (pool_.counts.recorder() != nullptr) [[unlikely]] {
      pool_.counts.record_list_reclaimed(pool_.regions, index);
    }
    for (std::size_t i = 0; i < Counts::kReclaimedAtOnce && index != kNoBlock; ++i) {
      const BlockIndex next = pool_.regions.block(index).use.next_gathered;
      make_free(index);
      index = next;
    }
  }
}

Address Arena::revive(const RetiredBlock& block, std::uint64_t bytes, Caller caller) noexcept try {
  constexpr std::uint64_t kMostPadding = 1ULL << 30;
  const std::lock_guard lock(pool_.lock);
  if (block.generation != pool_.generation || bytes == 0 || block.bytes < bytes ||
      block.bytes - bytes > std::min(std::max(bytes / 4, kGranuleBytes), kMostPadding) ||
      !pool_.regions.is_aligned_for(block.index, bytes)) {
    return 0;
  }
  const Regions::Placed placed = pool_.regions.revive(block.index, bytes);
  pool_.counts.reclaimed(pool_.regions.block(block.index));
  if (pool_.counts.recorder() != nullptr) {
    pool_.counts.record_reclaimed(pool_.regions, block.index);
  }
  return count_allocation(placed, bytes, caller);
} catch (const std::bad_alloc&) {
  return 0;
}

Marked Arena::marked() const noexcept {
  const std::lock_guard lock(pool_.lock);
  return pool_.counts.marked();
}

void Arena::restart_marked_peak() noexcept {
  const std::lock_guard lock(pool_.lock);
  pool_.counts.restart_marked_peak();
}

void Arena::restart_marked_pool_peak() noexcept {
  const std::lock_guard lock(pool_.lock);
  pool_.counts.restart_marked_pool_peak();
}

BlockInfo Arena::info_of(BlockIndex index) const {
  const Block& block = pool_.regions.block(index);
  return {pool_.regions.address_of(index), block.requested_bytes(), pool_.regions.bytes_of(index),
          block.id()};
}

std::optional<BlockInfo> Arena::find_containing(Address address) const noexcept {
  const std::lock_guard lock(pool_.lock);
  const BlockIndex index = pool_.regions.find_containing(address);
  return index == kNoBlock ? std::nullopt : std::optional(info_of(index));
}

std::optional<BlockInfo> Arena::find_live_from(Address address) const noexcept {
  const std::lock_guard lock(pool_.lock);
  const BlockIndex index = pool_.regions.find_live_from(address);
  return index == kNoBlock ? std::nullopt : std::optional(info_of(index));
}

void Arena::abandon() noexcept {
  const std::lock_guard lock(pool_.lock);
  pool_.budget.release(pool_.counts.pool_bytes());  // a caller that was refused may try again
  pool_.regions.clear();
  gathered_ = {};
  source_is_dry_ = false;
  ++pool_.generation;
  pool_.counts.abandoned(pool_.regions);
}

void Arena::memory_is_away(Address base, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(pool_.lock);
  if (region_at(base) != 0) {
    pool_.counts.memory_left(base, bytes);
  }
}

void Arena::memory_is_back(Address base, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(pool_.lock);
  if (region_at(base) != 0) {
    pool_.counts.memory_returned(base, bytes);
  }
}

void Arena::refresh_figures() noexcept {
  const std::lock_guard lock(pool_.lock);
  pool_.write_resized();
}

Headroom Arena::headroom() const noexcept {
  const std::lock_guard lock(pool_.lock);
  Headroom room = pool_.counts.room();
  room.to_grow = source_is_dry_ ? 0 : pool_.budget.left();
  return room;
}

Stats Arena::stats() const noexcept {
  const std::lock_guard lock(pool_.lock);
  Stats stats = pool_.counts.stats();
  stats.largest_free_block_bytes = pool_.regions.largest_fit_bytes();
  stats.bytes_limit = pool_.budget.limit();
  stats.regions = pool_.regions.count();
  return stats;
}

std::vector<BlockSnapshot> Arena::snapshot() const {
  const std::lock_guard lock(pool_.lock);
  std::vector<BlockSnapshot> blocks;
  for (const Regions::Region& region : pool_.regions.all()) {
    for (BlockIndex index = region.exists() ? pool_.regions.block(region.edge).next : region.edge;
         index != region.edge; index = pool_.regions.block(index).next) {
      const Block& block = pool_.regions.block(index);
      if (block.state != BlockState::kVacant && block.state != BlockState::kMoving) {
        const bool is_marked = block.state == BlockState::kLive && block.is_marked();
        blocks.push_back({pool_.regions.address_of(index), pool_.regions.bytes_of(index),
                          block.state, is_marked ? block.requested_bytes() : 0});
      }
    }
  }
  return blocks;
}

std::size_t Arena::host_bytes() const noexcept {
  const std::lock_guard lock(pool_.lock);
  return pool_.regions.host_bytes();
}

std::string Arena::verify() const {
  std::uint64_t in_use = 0;
  std::uint64_t retired = 0;
  std::uint64_t usable = 0;
  std::uint64_t marked = 0;
  for (const BlockSnapshot& block : snapshot()) {
    marked += block.marked_bytes;
    usable += block.bytes;
    in_use += block.state == BlockState::kFree ? 0 : block.bytes;
    retired += block.state == BlockState::kRetired ? block.bytes : 0;
  }
  const std::lock_guard lock(pool_.lock);
  std::string problems = pool_.regions.verify();
  if (in_use != pool_.counts.bytes_in_use() || retired != pool_.counts.bytes_retired() ||
      marked != pool_.counts.marked().bytes || usable != pool_.counts.usable_bytes()) {
    problems += "the statistics do not agree with the blocks\n";
  }
  return problems;
}

}  // namespace cubfc::arena
