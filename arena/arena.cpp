#include "arena/arena.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <new>
#include <utility>

namespace cubfc::arena {
namespace {

// Growth on demand makes room for a step of this size, then for twice as much each time, and for no
// less than an eighth of what the arena has, up to a cap: few regions, few ends that fit nothing,
// and a program that needs a little more does not take a lot.
constexpr std::uint64_t kFirstStepBytes = 2ULL << 20;
constexpr std::uint64_t kLargestStepBytes = 256ULL << 20;

// Regions are asked for in multiples of this, as which sources give memory in any case.
constexpr std::uint64_t kSourceUnitBytes = 2ULL << 20;

// A thread that misses while another is growing the arena waits for that one, so that the two do
// not both preallocate. Not for ever: the other is inside the driver, where a hook of somebody
// else's may make it wait for a lock that this thread holds.
constexpr std::chrono::seconds kGrowthPatience{2};

std::uint64_t first_id_of_arena() {
  static std::atomic<std::uint64_t> arenas{0};
  return (arenas.fetch_add(1, std::memory_order_relaxed) + 1) << 40;
}

}  // namespace

thread_local bool Arena::this_thread_obtains_ = false;

Arena::Arena(MemorySource& source, Budget& budget, Options options)
    : source_(source),
      budget_(budget),
      options_(options),
      largest_possible_(largest_possible()),
      last_id_(first_id_of_arena()),
      to_preallocate_(options.preallocate_bytes),
      next_step_bytes_(kFirstStepBytes),
      id_before_first_(last_id_) {}

std::uint64_t Arena::largest_possible() const {
  const std::uint64_t most = std::min(options_.largest_bytes, budget_.limit());
  const std::uint64_t lost = source_.page_bytes() > 0 ? 0 : Regions::region_bytes_for(0);
  return std::min(kLargestRequestBytes, most - std::min(most, lost));
}

// Returns the block's address.
inline Address Arena::count_allocation(BlockIndex index, std::uint64_t bytes) {
  Block& block = regions_.block(index);
  const std::uint64_t id = ++last_id_;
  block.use.id_low = static_cast<std::uint32_t>(id);
  block.use.id_high = static_cast<std::uint32_t>(id >> 32);
  granules_in_use_ += block.granules;
  peak_granules_in_use_ = std::max(peak_granules_in_use_, granules_in_use_);
  padding_ += block.use.padding;
  largest_request_ = std::max(largest_request_, bytes);
  return regions_.address_of(index);
}

// What the arena has already, or 0.
inline Address Arena::take(std::uint64_t bytes, Search search) noexcept try {
  const std::lock_guard lock(lock_);
  if (is_possible(bytes)) [[likely]] {
    if (const BlockIndex index = regions_.allocate(bytes, search); index != kNoBlock) [[likely]] {
      return count_allocation(index, bytes);
    }
  }
  return 0;
} catch (const std::bad_alloc&) {
  return 0;
}

Allocation Arena::allocate(std::uint64_t bytes) noexcept {
  if (const Address address = take(bytes, Search::kBounded); address != 0) [[likely]] {
    return {address};
  }
  return allocate_with_growth(bytes);
}

Address Arena::allocate_without_growth(std::uint64_t bytes) noexcept {
  return take(bytes, Search::kBounded);
}

Allocation Arena::allocate_with_growth(std::uint64_t bytes) noexcept {
  Locked lock(lock_);
  Allocation result;
  Growth growth{false, Failure::kTooLarge, 0};
  try {
    bool look_first = true;  // when the source had nothing left, it is not asked in vain each time
    while (is_possible(bytes)) {
      // What growth has made room for may be anywhere in its class.
      const Search search = look_first && !source_is_dry_ ? Search::kBounded : Search::kEverywhere;
      if (!look_first) {
        growth = grow(lock, block_bytes_for(bytes));
        result.grew = result.grew || growth.grew;
        source_is_dry_ = growth.failure != Failure::kNone;
      }
      look_first = false;
      // Others may have taken what was made room for, or have freed enough.
      const BlockIndex index = regions_.allocate(bytes, search);
      if (index != kNoBlock) {
        result.address = count_allocation(index, bytes);
        return result;
      }
      if (growth.failure != Failure::kNone && growth.failure != Failure::kTooLarge) {
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

void Arena::count_failure() noexcept {
  const std::lock_guard lock(lock_);
  ++num_failures_;
}

// Makes room for a block of `block_bytes`, or says why there is none. Lets go of the lock
// meanwhile, so the room may be gone again when it returns: the caller looks again.
Arena::Growth Arena::grow(Locked& lock, std::uint64_t block_bytes) {
  if (wait_for_growth(lock)) {
    return {};
  }
  Growth growth = source_.page_bytes() > 0
                      ? map_for(lock, block_bytes)
                      : obtain_for(lock, Regions::region_bytes_for(block_bytes));
  if (growth.failure == Failure::kOverLimit || growth.failure == Failure::kExhausted) {
    if (usable_bytes_ - granules_in_use_ * kGranuleBytes >= block_bytes) {
      growth.failure = Failure::kFragmented;
    }
  }
  return growth;
}

// Waits for another thread that grows; true when the arena has grown by that.
bool Arena::wait_for_growth(Locked& lock) {
  const std::uint64_t obtained = regions_obtained_;
  return growing_ > 0 && !this_thread_obtains_ &&
         source_ended_.wait_for(lock, kGrowthPatience,
                                [&] { return growing_ == 0 || regions_obtained_ != obtained; }) &&
         regions_obtained_ != obtained;
}

bool Arena::wait_for_others() noexcept {
  Locked lock(lock_);
  const std::uint64_t obtained = regions_obtained_;
  const std::uint64_t releases = budget_.releases();
  const auto changed = [&] {
    return regions_obtained_ != obtained || budget_.releases() != releases;
  };
  if (this_thread_obtains_ || (growing_ == 0 && releasing_ == 0)) {
    return false;
  }
  source_ended_.wait_for(lock, kGrowthPatience,
                         [&] { return changed() || (growing_ == 0 && releasing_ == 0); });
  return changed();
}

// A region for a block of which the region needs `least_bytes`, and what else is due.
Arena::Growth Arena::obtain_for(Locked& lock, std::uint64_t least_bytes) {
  if (this_thread_obtains_) {
    return obtain(lock, least_bytes, least_bytes, 2);
  }
  if (to_preallocate_ > 0) {
    return preallocate(lock, least_bytes);
  }
  // A step's lead comes on top, so that blocks whose size is a power of two fill it.
  const std::uint64_t step =
      std::min(std::max(next_step_bytes_, pool_bytes_ / 8), kLargestStepBytes) + kRegionLeadBytes;
  const Growth growth =
      obtain(lock, round_up(std::max(step, least_bytes), kSourceUnitBytes), least_bytes, 2);
  if (growth.grew) {
    next_step_bytes_ = std::min(next_step_bytes_ * 2, kLargestStepBytes);
  }
  return growth;
}

// The small region comes first, unless it is the large one that is needed.
Arena::Growth Arena::preallocate(Locked& lock, std::uint64_t least_bytes) {
  const std::uint64_t all = std::exchange(to_preallocate_, 0);  // no other thread does it, too
  const std::uint64_t small = round_down(options_.small_region_bytes, kSourceUnitBytes);
  const std::uint64_t large = round_down(
      std::min(all, Regions::region_bytes_for(kLargestRequestBytes)) - small, kGranuleBytes);
  const bool small_first = small >= least_bytes;
  const Growth growth =
      obtain(lock, std::max(small_first ? small : large, least_bytes), least_bytes, 10);
  if (!growth.grew) {
    to_preallocate_ = all;
  } else if (const std::uint64_t rest = small_first ? large : small; rest > 0) {
    obtain(lock, rest, std::min(rest, kSourceUnitBytes), 10);
  }
  return growth;
}

// Asks the source for a region of `bytes`, while it has too little for a `back_off`th less, down to
// `least_bytes`.
Arena::Growth Arena::obtain(Locked& lock, std::uint64_t bytes, std::uint64_t least_bytes,
                            std::uint64_t back_off) {
  const auto less = [&] {
    return std::max(least_bytes, round_down(bytes - bytes / back_off, kSourceUnitBytes));
  };
  // What is left may change under another arena of the same device: never more than that.
  const auto allowed = [&] { return round_down(budget_.left(), kGranuleBytes); };
  bytes = std::max(least_bytes, std::min(bytes, allowed()));
  for (;;) {
    if (!budget_.take(bytes)) {
      if (bytes == least_bytes) {
        return {false, Failure::kOverLimit, 0};
      }
      bytes = std::max(least_bytes, std::min(less(), allowed()));
      continue;
    }
    const std::uint64_t generation = generation_;
    const MemorySource::Region region = without_lock(lock, [&] { return source_.obtain(bytes); });
    const bool ended = generation != generation_;
    if (region.base != 0 && !ended && adopt(region, bytes)) {
      return {true, Failure::kNone, 0};
    }
    budget_.give(bytes);
    if (region.base != 0) {
      if (!ended) {  // else it went with its context, and its address may be somebody else's
        lock.unlock();
        source_.release(region.base, bytes);
        lock.lock();
      }
      return {false, Failure::kHostMemory, 0};
    }
    if (!region.exhausted) {
      return {false, Failure::kSourceError, region.error};
    }
    if (bytes == least_bytes) {
      return {false, Failure::kExhausted, region.error};
    }
    bytes = less();
  }
}

bool Arena::adopt(const MemorySource::Region& region, std::uint64_t bytes) try {
  if (!regions_.add(region.base, bytes)) {
    return false;
  }
  const Regions::Region* added = regions_.region_around(region.base);
  ++regions_obtained_;
  usable_bytes_ += std::uint64_t{added->granules} * kGranuleBytes;
  pool_bytes_ += bytes;
  peak_pool_bytes_ = std::max(peak_pool_bytes_, pool_bytes_);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

std::uint64_t Arena::release_unused(std::uint64_t keep_bytes) noexcept try {
  Locked lock(lock_);
  if (const std::uint64_t page = source_.page_bytes(); page > 0) {
    return unmap_unused(lock, round_down(pool_bytes_ - std::min(pool_bytes_, keep_bytes), page));
  }
  std::vector<std::pair<Address, std::uint64_t>> released;
  std::vector<std::uint16_t> unused;
  std::copy_if(regions_.numbers().begin(), regions_.numbers().end(), std::back_inserter(unused),
               [&](std::uint16_t number) { return regions_.is_unused(number); });
  released.reserve(unused.size());
  std::uint64_t bytes = 0;
  for (const std::uint16_t number : unused) {
    const Regions::Region& region = regions_.all()[number];
    if (pool_bytes_ - region.obtained_bytes < keep_bytes) {
      continue;
    }
    released.emplace_back(region.obtained_base, region.obtained_bytes);
    bytes += region.obtained_bytes;
    pool_bytes_ -= region.obtained_bytes;
    usable_bytes_ -= std::uint64_t{region.granules} * kGranuleBytes;
    regions_.remove(number);
  }
  ++releasing_;
  lock.unlock();
  for (const auto& [base, size] : released) {
    source_.release(base, size);
  }
  lock.lock();
  budget_.release(bytes);
  --releasing_;
  source_ended_.notify_all();
  return bytes;
} catch (const std::bad_alloc&) {
  return 0;  // nothing was changed: the list of unused regions comes first
}

std::uint64_t Arena::unused_bytes() const noexcept {
  const std::lock_guard lock(lock_);
  std::uint64_t bytes = 0;
  if (const auto page = static_cast<std::uint32_t>(source_.page_bytes() / kGranuleBytes);
      page > 0) {
    regions_.for_each_free_from(page, [&](BlockIndex index) {
      const Block& block = regions_.block(index);
      const std::uint64_t start = round_up(block.start, page);
      const std::uint64_t end = round_down(block.end(), page);
      bytes += end > start ? (end - start) * kGranuleBytes : 0;
    });
    return bytes;
  }
  for (const std::uint16_t number : regions_.numbers()) {
    bytes += regions_.is_unused(number) ? regions_.all()[number].obtained_bytes : 0;
  }
  return bytes;
}

bool Arena::free(Address address) noexcept {
  const std::lock_guard lock(lock_);
  const BlockIndex index = regions_.retire(address);
  if (index == kNoBlock) {
    return false;
  }
  count_free(regions_.block(index));
  granules_in_use_ -= regions_.block(index).granules;
  regions_.reclaim(index);
  return true;
}

std::optional<RetiredBlock> Arena::retire(Address address) noexcept {
  const std::lock_guard lock(lock_);
  const BlockIndex index = regions_.retire(address);
  if (index == kNoBlock) {
    return std::nullopt;
  }
  count_free(regions_.block(index));
  granules_retired_ += regions_.block(index).granules;
  return RetiredBlock{index, regions_.bytes_of(index), generation_};
}

void Arena::reclaim(const RetiredBlock& block) noexcept {
  const std::lock_guard lock(lock_);
  if (block.generation != generation_) {
    return;  // its memory went with its context
  }
  granules_retired_ -= regions_.block(block.index).granules;
  granules_in_use_ -= regions_.block(block.index).granules;
  regions_.reclaim(block.index);
}

Address Arena::revive(const RetiredBlock& block, std::uint64_t bytes) noexcept try {
  constexpr std::uint64_t kMostPadding = 1ULL << 30;
  const std::lock_guard lock(lock_);
  if (block.generation != generation_ || bytes == 0 || block.bytes < bytes ||
      block.bytes - bytes > std::min(std::max(bytes / 4, kGranuleBytes), kMostPadding)) {
    return 0;
  }
  regions_.revive(block.index, bytes);
  granules_in_use_ -= regions_.block(block.index).granules;
  granules_retired_ -= regions_.block(block.index).granules;
  return count_allocation(block.index, bytes);
} catch (const std::bad_alloc&) {
  return 0;
}

void Arena::count_free(const Block& block) {
  ++num_frees_;
  padding_ -= block.use.padding;
}

BlockInfo Arena::info_of(BlockIndex index) const {
  const Block& block = regions_.block(index);
  const std::uint64_t block_bytes = regions_.bytes_of(index);
  return {regions_.address_of(index), block_bytes - block.use.padding, block_bytes,
          std::uint64_t{block.use.id_high} << 32 | block.use.id_low};
}

std::optional<BlockInfo> Arena::find_containing(Address address) const noexcept {
  const std::lock_guard lock(lock_);
  const BlockIndex index = regions_.find_containing(address);
  return index == kNoBlock ? std::nullopt : std::optional(info_of(index));
}

std::optional<BlockInfo> Arena::find_live_from(Address address) const noexcept {
  const std::lock_guard lock(lock_);
  const BlockIndex index = regions_.find_live_from(address);
  return index == kNoBlock ? std::nullopt : std::optional(info_of(index));
}

void Arena::abandon() noexcept {
  const std::lock_guard lock(lock_);
  budget_.give(pool_bytes_);
  regions_.clear();
  ++generation_;
  lost_blocks_ = num_allocs() - num_frees_;
  granules_in_use_ = 0;
  granules_retired_ = 0;
  padding_ = 0;
  usable_bytes_ = 0;
  pool_bytes_ = 0;
}

void Arena::begin(Options options) noexcept {
  const std::lock_guard lock(lock_);
  options_ = options;
  largest_possible_ = largest_possible();
  to_preallocate_ = options.preallocate_bytes;
  next_step_bytes_ = kFirstStepBytes;
}

Headroom Arena::headroom() const noexcept {
  const std::lock_guard lock(lock_);
  return {peak_granules_in_use_ * kGranuleBytes, usable_bytes_ - granules_in_use_ * kGranuleBytes,
          granules_retired_ * kGranuleBytes, source_is_dry_ ? 0 : budget_.left()};
}

Stats Arena::stats() const noexcept {
  const std::lock_guard lock(lock_);
  Stats stats;
  stats.num_allocs = num_allocs();
  stats.num_frees = num_frees_;
  stats.num_failures = num_failures_;
  stats.live_blocks = stats.num_allocs - num_frees_ - lost_blocks_;
  stats.bytes_in_use = granules_in_use_ * kGranuleBytes;
  stats.peak_bytes_in_use = peak_granules_in_use_ * kGranuleBytes;
  stats.bytes_retired = granules_retired_ * kGranuleBytes;
  stats.bytes_requested = stats.bytes_in_use - stats.bytes_retired - padding_;
  stats.largest_alloc_size = largest_request_;
  stats.largest_free_block_bytes = regions_.largest_fit_bytes();
  stats.bytes_limit = budget_.limit();
  stats.regions = regions_.count();
  stats.regions_obtained = regions_obtained_;
  stats.usable_bytes = usable_bytes_;
  stats.pool_bytes = pool_bytes_;
  stats.peak_pool_bytes = peak_pool_bytes_;
  return stats;
}

std::vector<BlockSnapshot> Arena::snapshot() const {
  const std::lock_guard lock(lock_);
  std::vector<BlockSnapshot> blocks;
  for (const Regions::Region& region : regions_.all()) {
    for (BlockIndex index = region.exists() ? regions_.block(region.edge).next : region.edge;
         index != region.edge; index = regions_.block(index).next) {
      const BlockState state = regions_.block(index).state;
      if (state != BlockState::kVacant && state != BlockState::kMoving) {
        blocks.push_back({regions_.address_of(index), regions_.bytes_of(index), state});
      }
    }
  }
  return blocks;
}

std::size_t Arena::host_bytes() const noexcept {
  const std::lock_guard lock(lock_);
  return regions_.host_bytes();
}

std::string Arena::verify() const {
  std::uint64_t in_use = 0;
  std::uint64_t retired = 0;
  std::uint64_t usable = 0;
  for (const BlockSnapshot& block : snapshot()) {
    usable += block.bytes;
    in_use += block.state == BlockState::kFree ? 0 : block.bytes;
    retired += block.state == BlockState::kRetired ? block.bytes : 0;
  }
  const std::lock_guard lock(lock_);
  std::string problems = regions_.verify();
  if (in_use != granules_in_use_ * kGranuleBytes || retired != granules_retired_ * kGranuleBytes ||
      usable != usable_bytes_) {
    problems += "the statistics do not agree with the blocks\n";
  }
  return problems;
}

const char* describe(Failure failure) {
  switch (failure) {
    case Failure::kNone:
      return "none";
    case Failure::kOverLimit:
      return "over the limit";
    case Failure::kFragmented:
      return "fragmentation: enough is free, not in one piece";
    case Failure::kExhausted:
      return "device full";
    case Failure::kTooLarge:
      return "larger than the device, or than the limit";
    case Failure::kSourceError:
      return "the driver failed";
    case Failure::kHostMemory:
      return "the host has no memory";
  }
  return "unknown";
}

}  // namespace cubfc::arena
