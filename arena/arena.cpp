#include "arena/arena.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <utility>

namespace cubfc::arena {
namespace {

// Growth on demand makes room for a step of this size, then for twice as much each time, and for no
// less than an eighth of what the arena has: few regions, few ends that fit nothing. The cap keeps
// a program that needs a little more from taking a lot.
constexpr std::uint64_t kFirstStepBytes = 2ULL << 20;
constexpr std::uint64_t kLargestStepBytes = 256ULL << 20;

// The driver maps memory in units of this size, whatever it is asked for.
constexpr std::uint64_t kDriverUnitBytes = 2ULL << 20;

// A thread that misses while another is growing the arena waits for that one, so that the two do
// not both preallocate. Not for ever: the other is inside the driver, where a hook of somebody
// else's may make it wait for a lock that this thread holds.
constexpr std::chrono::seconds kGrowthPatience{2};

std::uint64_t first_id_of_arena() {
  static std::atomic<std::uint64_t> arenas{0};
  return (arenas.fetch_add(1, std::memory_order_relaxed) + 1) << 40;
}

}  // namespace

Arena::Arena(MemorySource& source, Budget& budget, Options options)
    : source_(source),
      budget_(budget),
      options_(options),
      next_step_bytes_(kFirstStepBytes),
      last_id_(first_id_of_arena()) {}

Allocation Arena::allocate(std::uint64_t bytes) noexcept try {
  Lock lock(mutex_);
  Allocation result;
  const bool possible = is_possible(bytes);
  for (;;) {
    const BlockIndex index = possible ? regions_.allocate(bytes) : kNoBlock;
    if (index != kNoBlock) {
      count_allocation(index, bytes);
      result.address = regions_.address_of(index);
      return result;
    }
    const Growth growth =
        possible ? grow(lock, block_bytes_for(bytes)) : Growth{false, Failure::kTooLarge, 0};
    if (growth.failure != Failure::kNone) {
      ++stats_.num_failures;
      result.failure = growth.failure;
      result.source_error = growth.source_error;
      return result;
    }
    result.grew = result.grew || growth.grew;
  }
} catch (const std::bad_alloc&) {
  return {0, Failure::kHostMemory, 0, false};
}

Address Arena::allocate_without_growth(std::uint64_t bytes) noexcept try {
  const Lock lock(mutex_);
  const BlockIndex index = is_possible(bytes) ? regions_.allocate(bytes) : kNoBlock;
  if (index == kNoBlock) {
    return 0;
  }
  count_allocation(index, bytes);
  return regions_.address_of(index);
} catch (const std::bad_alloc&) {
  return 0;
}

bool Arena::is_possible(std::uint64_t bytes) const {
  return bytes > 0 && bytes <= std::min(kLargestRequestBytes, options_.largest_bytes) &&
         bytes <= budget_.limit();
}

void Arena::count_allocation(BlockIndex index, std::uint64_t bytes) {
  const std::uint64_t id = ++last_id_;
  Block::Use& use = regions_.block(index).use;
  use.id_low = static_cast<std::uint32_t>(id);
  use.id_high = static_cast<std::uint32_t>(id >> 32);

  ++stats_.num_allocs;
  ++stats_.live_blocks;
  stats_.bytes_requested += bytes;
  stats_.bytes_in_use += regions_.bytes_of(index);
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
  stats_.largest_alloc_size = std::max(stats_.largest_alloc_size, bytes);
}

// Makes room for a block of `block_bytes`, or says why there is none. Lets go of the lock
// meanwhile, so the room may be gone again when it returns: the caller looks again.
Arena::Growth Arena::grow(Lock& lock, std::uint64_t block_bytes) {
  if (growing_ > 0) {
    const std::uint64_t obtained = stats_.regions_obtained;
    const bool ended = growth_ended_.wait_for(lock, kGrowthPatience, [&] {
      return growing_ == 0 || stats_.regions_obtained != obtained;
    });
    if (ended && stats_.regions_obtained != obtained) {
      return {};
    }
  }
  const std::uint64_t least_bytes = Regions::region_bytes_for(block_bytes);
  Growth growth = obtain(lock, least_bytes);
  if (growth.failure == Failure::kOverLimit || growth.failure == Failure::kExhausted) {
    if (release_unused(lock) > 0) {
      growth = obtain(lock, least_bytes);
    }
  }
  if (growth.failure == Failure::kOverLimit || growth.failure == Failure::kExhausted) {
    if (regions_.largest_fit_bytes() >= block_bytes) {
      return {};  // another thread freed enough meanwhile
    }
    if (stats_.usable_bytes - stats_.bytes_in_use >= block_bytes) {
      growth.failure = Failure::kFragmented;
    }
  }
  return growth;
}

// Asks the source for a region, for less and less down to `least_bytes`.
Arena::Growth Arena::obtain(Lock& lock, std::uint64_t least_bytes) {
  std::uint64_t bytes = first_size_to_try(least_bytes);
  const std::uint64_t generation = generation_;
  for (;;) {
    if (!budget_.take(bytes)) {
      if (bytes == least_bytes) {
        return {false, Failure::kOverLimit, 0};
      }
      // What is left may have changed under another arena of the same device: never ask for more.
      bytes = std::max(least_bytes, std::min(next_size_to_try(bytes, least_bytes),
                                             round_down(budget_.left(), kGranuleBytes)));
      continue;
    }
    ++growing_;
    lock.unlock();
    const MemorySource::Region region = source_.obtain(bytes);
    lock.lock();
    --growing_;
    if (region.base != 0 && generation == generation_ && adopt(region, bytes)) {
      growth_ended_.notify_all();
      return {true, Failure::kNone, 0};
    }
    budget_.give(bytes);
    growth_ended_.notify_all();
    if (region.base != 0) {  // the context went away meanwhile, or there are too many regions
      lock.unlock();
      source_.release(region.base, bytes);
      lock.lock();
      return {false, Failure::kExhausted, 0};
    }
    if (!region.exhausted) {
      return {false, Failure::kSourceError, region.error};
    }
    if (bytes == least_bytes) {
      return {false, Failure::kExhausted, region.error};
    }
    bytes = next_size_to_try(bytes, least_bytes);
  }
}

std::uint64_t Arena::first_size_to_try(std::uint64_t least_bytes) const {
  // A step's lead comes on top, so that blocks whose size is a power of two fill it.
  const std::uint64_t step =
      std::min(std::max(next_step_bytes_, stats_.pool_bytes / 8), kLargestStepBytes);
  const std::uint64_t wanted = preallocating()
                                   ? round_down(options_.preallocate_bytes, kGranuleBytes)
                                   : round_up(step + kRegionLeadBytes, kDriverUnitBytes);
  const std::uint64_t allowed = round_down(budget_.left(), kGranuleBytes);
  return std::max(least_bytes,
                  std::min(std::max(wanted, round_up(least_bytes, kDriverUnitBytes)), allowed));
}

std::uint64_t Arena::next_size_to_try(std::uint64_t bytes, std::uint64_t least_bytes) const {
  const std::uint64_t smaller = preallocating() ? bytes / 10 * 9 : bytes / 2;
  return std::max(least_bytes, round_down(smaller, kDriverUnitBytes));
}

bool Arena::adopt(const MemorySource::Region& region, std::uint64_t bytes) try {
  if (!regions_.add(region.base, bytes)) {
    return false;
  }
  const Regions::Region* added = regions_.region_around(region.base);
  if (!preallocating()) {
    next_step_bytes_ = std::min(next_step_bytes_ * 2, kLargestStepBytes);
  }
  preallocated_ = true;
  ++stats_.regions;
  ++stats_.regions_obtained;
  stats_.usable_bytes += std::uint64_t{added->granules} * kGranuleBytes;
  stats_.pool_bytes += bytes;
  stats_.peak_pool_bytes = std::max(stats_.peak_pool_bytes, stats_.pool_bytes);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

std::uint64_t Arena::release_unused() noexcept {
  try {
    Lock lock(mutex_);
    return release_unused(lock);
  } catch (const std::bad_alloc&) {
    return 0;  // nothing was changed: the list of unused regions comes first
  }
}

std::uint64_t Arena::release_unused(Lock& lock) {
  std::vector<std::pair<Address, std::uint64_t>> released;
  const std::vector<std::uint16_t> unused = regions_.unused();
  released.reserve(unused.size());
  std::uint64_t bytes = 0;
  for (const std::uint16_t number : unused) {
    const Regions::Region& region = regions_.all()[number];
    released.emplace_back(region.obtained_base, region.obtained_bytes);
    bytes += region.obtained_bytes;
    --stats_.regions;
    stats_.pool_bytes -= region.obtained_bytes;
    stats_.usable_bytes -= std::uint64_t{region.granules} * kGranuleBytes;
    regions_.remove(number);
  }
  lock.unlock();
  for (const auto& [base, size] : released) {
    source_.release(base, size);
  }
  budget_.give(bytes);
  lock.lock();
  return bytes;
}

bool Arena::free(Address address) noexcept {
  const Lock lock(mutex_);
  const BlockIndex index = regions_.find(address);
  if (index == kNoBlock) {
    return false;
  }
  take_away(index);
  make_free(index);
  return true;
}

std::optional<RetiredBlock> Arena::retire(Address address) noexcept {
  const Lock lock(mutex_);
  const BlockIndex index = regions_.find(address);
  if (index == kNoBlock) {
    return std::nullopt;
  }
  take_away(index);
  return RetiredBlock{index, generation_};
}

void Arena::reclaim(const RetiredBlock& block) noexcept {
  const Lock lock(mutex_);
  if (block.generation == generation_) {  // otherwise its memory went with its context
    make_free(block.index);
  }
}

void Arena::take_away(BlockIndex index) {
  const std::uint64_t block_bytes = regions_.bytes_of(index);
  --stats_.live_blocks;
  ++stats_.num_frees;
  stats_.bytes_requested -= block_bytes - regions_.block(index).use.unused_bytes;
  stats_.bytes_retired += block_bytes;
  regions_.retire(index);
}

void Arena::make_free(BlockIndex index) {
  const std::uint64_t block_bytes = regions_.bytes_of(index);
  stats_.bytes_retired -= block_bytes;
  stats_.bytes_in_use -= block_bytes;
  regions_.reclaim(index);
}

BlockInfo Arena::info_of(BlockIndex index) const {
  const Block& block = regions_.block(index);
  const std::uint64_t block_bytes = regions_.bytes_of(index);
  return {regions_.address_of(index), block_bytes - block.use.unused_bytes, block_bytes,
          std::uint64_t{block.use.id_high} << 32 | block.use.id_low};
}

std::optional<BlockInfo> Arena::find_containing(Address address) const noexcept {
  const Lock lock(mutex_);
  const BlockIndex index = regions_.find_containing(address);
  return index == kNoBlock ? std::nullopt : std::optional(info_of(index));
}

std::uint64_t Arena::region_at(Address address) const noexcept {
  const Lock lock(mutex_);
  const Regions::Region* region = regions_.region_around(address);
  return region == nullptr ? 0 : region->number;
}

void Arena::abandon() noexcept {
  const Lock lock(mutex_);
  budget_.give(stats_.pool_bytes);
  regions_.clear();
  ++generation_;
  stats_.bytes_in_use = 0;
  stats_.bytes_requested = 0;
  stats_.bytes_retired = 0;
  stats_.live_blocks = 0;
  stats_.regions = 0;
  stats_.usable_bytes = 0;
  stats_.pool_bytes = 0;
}

void Arena::begin(Options options) noexcept {
  const Lock lock(mutex_);
  options_ = options;
  preallocated_ = false;
  next_step_bytes_ = kFirstStepBytes;
}

Stats Arena::stats() const noexcept {
  const Lock lock(mutex_);
  Stats stats = stats_;
  stats.bytes_limit = budget_.limit();
  stats.bytes_reserved = stats.pool_bytes;
  stats.peak_bytes_reserved = stats.peak_pool_bytes;
  stats.largest_free_block_bytes = regions_.largest_fit_bytes();
  return stats;
}

std::vector<BlockSnapshot> Arena::snapshot() const {
  const Lock lock(mutex_);
  std::vector<BlockSnapshot> blocks;
  for (const Regions::Region& region : regions_.all()) {
    for (BlockIndex index = region.first; index != kNoBlock; index = regions_.block(index).next) {
      blocks.push_back(
          {regions_.address_of(index), regions_.bytes_of(index), regions_.block(index).state});
    }
  }
  return blocks;
}

std::size_t Arena::host_bytes() const noexcept {
  const Lock lock(mutex_);
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
  const Lock lock(mutex_);
  std::string problems = regions_.verify();
  if (in_use != stats_.bytes_in_use || retired != stats_.bytes_retired ||
      usable != stats_.usable_bytes) {
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
