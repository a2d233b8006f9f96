#include "arena/arena.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <iterator>
#include <new>
#include <utility>

namespace cubfc::arena {
namespace {

// A thread that misses while another is growing the arena waits for that one, so that the two do
// not both preallocate. Not for ever: the other is inside the driver, where a hook of somebody
// else's may make it wait for a lock that this thread holds.
constexpr std::chrono::seconds kGrowthPatience{2};

// So many blocks are made free before others that wait for the lock have their turn.
constexpr std::size_t kReclaimedAtOnce = 32;

// Its blocks' numbers begin behind it.
std::uint64_t number_of_arena() {
  static std::atomic<std::uint64_t> arenas{0};
  return (arenas.fetch_add(1, std::memory_order_relaxed) + 1) << 48;
}

}  // namespace

constinit thread_local bool Arena::this_thread_obtains_ = false;

Arena::Arena(MemorySource& source, Budget& budget, const Options& options)
    : source_(source),
      budget_(budget),
      last_number_(number_of_arena()),
      number_before_first_(last_number_) {
  set_options(options);
}

void Arena::set_options(const Options& options) {
  options_ = options;
  if (source_.page_bytes() > 0) {
    options_.own_above_bytes = kLargestRequestBytes;  // there is one region
  }
  largest_possible_ = std::min({kLargestRequestBytes, options.largest_bytes, budget_.limit()});
  largest_in_slice_ = std::min(largest_possible_, options_.own_above_bytes);
  to_preallocate_ = options.preallocate_bytes;
  next_step_bytes_ = kSourceUnitBytes;
}

// But for what there is to grow. Precondition: the lock is held.
inline Headroom Arena::room() const noexcept {
  return {peak_granules_in_use_ * kGranuleBytes, usable_bytes_ - granules_in_use_ * kGranuleBytes,
          granules_retired_ * kGranuleBytes, 0};
}

// Returns the block's address.
inline Address Arena::count_allocation(const Regions::Placed& placed, std::uint64_t bytes,
                                       Caller caller) {
  Block& block = regions_.block(placed.index);
  last_number_ += Block::kNumberStep;
  block.set_number(last_number_ | caller);
  granules_in_use_ += block.granules;
  if (granules_in_use_ > peak_granules_in_use_) [[unlikely]] {
    peak_granules_in_use_ = granules_in_use_;
  }
  padding_ += block.use.padding;
  if (bytes > largest_request_) [[unlikely]] {
    largest_request_ = bytes;
  }
  if (caller >= kMarked) [[unlikely]] {
    count_marked(block);
  }
  if (figures_ != nullptr) {
    write_allocation(block, placed.address, bytes);
  }
  return placed.address;
}

void Arena::observe(Figures& figures, Observer& observer, const Figure& peaks) noexcept {
  const std::lock_guard lock(lock_);
  figures_ = &figures;
  put(figures.first_number, number_before_first_);
  put(figures.last_number, last_number_);
  observer_ = &observer;
  recorder_ = observer.records() ? &observer : nullptr;
  peaks_ = &peaks;
}

// Each of these writes down what has just been counted. Precondition: there are figures.
inline void Arena::write_allocation(const Block& block, Address address, std::uint64_t bytes) {
  put(figures_->last_number, last_number_);
  put(figures_->granules_in_use, granules_in_use_);
  figures_->callers[block.caller()].change(block.granules, read(*peaks_));
  if (granules_in_use_ > read(figures_->look_at)) [[unlikely]] {
    observer_->exceeded();
  }
  if (recorder_ != nullptr) [[unlikely]] {
    recorder_->allocated(address, bytes, block.use.padding, block.caller());
  }
}

// Of a block that is still a block.
inline void Arena::write_free(BlockIndex index) {
  put(figures_->num_frees, num_frees_);
  write_unused(index);
  if (recorder_ != nullptr) [[unlikely]] {
    recorder_->freed(freed_block(index));
  }
}
inline void Arena::write_retired(BlockIndex index) {
  put(figures_->num_frees, num_frees_);
  put(figures_->granules_retired, granules_retired_);
  if (recorder_ != nullptr) [[unlikely]] {
    recorder_->retired(freed_block(index));
  }
}
// The recorder is told by record_reclaimed(), of several at once.
inline void Arena::write_reclaimed(BlockIndex index) {
  put(figures_->granules_retired, granules_retired_);
  write_unused(index);
}
inline void Arena::write_unused(BlockIndex index) {
  const Block& block = regions_.block(index);
  put(figures_->granules_in_use, granules_in_use_);
  figures_->callers[block.caller()].change(~std::uint64_t{block.granules} + 1, read(*peaks_));
}
inline FreedBlock Arena::freed_block(BlockIndex index) const {
  return {regions_.address_of(index), regions_.bytes_of(index)};
}

// All blocks and all memory are gone.
void Arena::write_abandoned() noexcept {
  if (figures_ == nullptr) {
    return;
  }
  put(figures_->granules_in_use, 0);
  put(figures_->granules_retired, 0);
  for (CallerFigures& each : figures_->callers) {
    each.change(~read(each.has) + 1, read(*peaks_));
  }
  if (recorder_ != nullptr) {
    recorder_->abandoned();
  }
  write_resized();
}

// Whenever regions or pages have come or gone, and after a failure.
void Arena::write_resized() noexcept {
  if (figures_ != nullptr) {
    put(figures_->usable_bytes, usable_bytes_);
    put(figures_->pool_bytes, pool_bytes_);
    put(figures_->peak_pool_bytes, peak_pool_bytes_);
    put(figures_->num_failures, num_failures_);
    put(figures_->regions, regions_.count());
    put(figures_->largest_free_block_bytes, regions_.largest_fit_bytes());
    observer_->resized();
  }
}

// Precondition: is_possible(bytes).
inline Regions::Placed Arena::find_room(std::uint64_t bytes, Search search) {
  const Regions::Placed placed =
      is_plain(bytes) ? regions_.allocate(bytes, search) : Regions::Placed{};
  return placed ? placed : regions_.allocate_own(bytes);
}

// A slice that has room for it, or a region of one block's, which becomes a slice.
Regions::Placed Arena::find_room_against_the_rule(std::uint64_t bytes) {
  if (const Regions::Placed placed = regions_.allocate(bytes, Search::kEverywhere)) {
    return placed;
  }
  const std::uint64_t lost = regions_.make_slice_of_own(block_bytes_for(bytes));
  usable_bytes_ -= lost;
  write_resized();
  return lost == 0 ? Regions::Placed{} : regions_.allocate(bytes, Search::kEverywhere);
}

// What the arena has already, or 0. In one piece with all that it calls: mostly an allocation is no
// more than this.
[[gnu::flatten]] Address Arena::allocate_without_growth(std::uint64_t bytes, Caller caller) noexcept
    try {
  const std::lock_guard lock(lock_);
  if (is_plain(bytes)) [[likely]] {
    if (const Regions::Placed placed = regions_.allocate(bytes, Search::kBounded)) [[likely]] {
      return count_allocation(placed, bytes, caller);
    }
  }
  const Regions::Placed own = is_possible(bytes) ? regions_.allocate_own(bytes) : Regions::Placed{};
  return own ? count_allocation(own, bytes, caller) : 0;
} catch (const std::bad_alloc&) {
  return 0;
}

Allocation Arena::allocate_with_growth(std::uint64_t bytes, Caller caller) noexcept {
  Locked lock(lock_);
  Allocation result;
  Growth growth{false, Failure::kTooLarge, 0};
  try {
    bool look_first = true;  // when the source had nothing left, it is not asked in vain each time
    while (is_possible(bytes)) {
      // What growth has made room for may be anywhere in its class.
      const Search search = look_first && !source_is_dry_ ? Search::kBounded : Search::kEverywhere;
      if (!look_first) {
        growth = grow(lock, bytes);
        result.grew = result.grew || growth.grew;
        source_is_dry_ = growth.failure != Failure::kNone;
      }
      look_first = false;
      // Others may have taken what was made room for, or have freed enough.
      if (const Regions::Placed placed = find_room(bytes, search)) {
        result.address = count_allocation(placed, bytes, caller);
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

Address Arena::allocate_against_the_rule(std::uint64_t bytes, Caller caller) noexcept try {
  const std::lock_guard lock(lock_);
  const Regions::Placed placed = is_possible(bytes) && source_.page_bytes() == 0
                                     ? find_room_against_the_rule(bytes)
                                     : Regions::Placed{};
  return placed ? count_allocation(placed, bytes, caller) : 0;
} catch (const std::bad_alloc&) {
  return 0;
}

std::uint64_t Arena::growth_for(std::uint64_t bytes) const noexcept {
  const std::lock_guard lock(lock_);
  return has_own_region(bytes) || source_.page_bytes() > 0
             ? bytes
             : std::max(bytes, next_step_bytes_) + kRegionLeadBytes;
}

void Arena::count_failure() noexcept {
  const std::lock_guard lock(lock_);
  ++num_failures_;
  write_resized();
}

// Makes room for a request, or says why there is none. Lets go of the lock
// meanwhile, so the room may be gone again when it returns: the caller looks again.
Arena::Growth Arena::grow(Locked& lock, std::uint64_t bytes) {
  const std::uint64_t block_bytes = block_bytes_for(bytes);
  if (wait_for_growth(lock)) {
    return {};
  }
  Growth growth = source_.page_bytes() > 0 ? map_for(lock, block_bytes) : obtain_for(lock, bytes);
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

// Regions of one block's first: they serve few other requests.
std::uint64_t Arena::release_unused(std::uint64_t most_bytes) noexcept try {
  Locked lock(lock_);
  if (const std::uint64_t page = source_.page_bytes(); page > 0) {
    return unmap_unused(lock, round_up(std::min(most_bytes, pool_bytes_), page));
  }
  std::vector<std::uint16_t> own;
  std::vector<std::uint16_t> slices;
  for (const std::uint16_t number : regions_.numbers()) {
    if (regions_.is_unused(number)) {
      (regions_.all()[number].own ? own : slices).push_back(number);
    }
  }
  std::vector<std::uint16_t> chosen = choose(std::move(own), most_bytes);
  const std::uint64_t of_own = bytes_of(chosen);
  const std::vector<std::uint16_t> more =
      choose(std::move(slices), most_bytes - std::min(most_bytes, of_own));
  chosen.insert(chosen.end(), more.begin(), more.end());
  return release(lock, chosen);
} catch (const std::bad_alloc&) {
  return 0;  // nothing was changed
}

std::uint64_t Arena::release_beyond(std::uint64_t keep_bytes) noexcept try {
  Locked lock(lock_);
  std::uint64_t left = pool_bytes_;
  if (const std::uint64_t page = source_.page_bytes(); page > 0) {
    return unmap_unused(lock, round_down(left - std::min(left, keep_bytes), page));
  }
  std::vector<std::uint16_t> chosen;
  for (const std::uint16_t number : regions_.numbers()) {
    const std::uint64_t bytes = regions_.all()[number].obtained_bytes;
    if (regions_.is_unused(number) && left - bytes >= keep_bytes) {
      chosen.push_back(number);
      left -= bytes;
    }
  }
  return release(lock, chosen);
} catch (const std::bad_alloc&) {
  return 0;
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

[[gnu::flatten]] bool Arena::free(Address address) noexcept {
  const std::lock_guard lock(lock_);
  const BlockIndex index = regions_.retire(address);
  if (index == kNoBlock) {
    return false;
  }
  count_free(regions_.block(index));
  granules_in_use_ -= regions_.block(index).granules;
  if (figures_ != nullptr) {
    write_free(index);
  }
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
  if (figures_ != nullptr) {
    write_retired(index);
  }
  return RetiredBlock{index, regions_.bytes_of(index), generation_};
}

// A retired block. Precondition: the lock is held.
inline void Arena::make_free(BlockIndex index) {
  granules_retired_ -= regions_.block(index).granules;
  granules_in_use_ -= regions_.block(index).granules;
  if (figures_ != nullptr) {
    write_reclaimed(index);
  }
  regions_.reclaim(index);
}

void Arena::reclaim(const RetiredBlock& block) noexcept {
  const std::lock_guard lock(lock_);
  if (block.generation != generation_) {
    return;  // its memory went with its context
  }
  if (recorder_ != nullptr) [[unlikely]] {
    recorder_->reclaimed(std::array{freed_block(block.index)});
  }
  make_free(block.index);
}

[[gnu::flatten]] Arena::Gathered Arena::gather(Address address,
                                               std::uint64_t free_beside) noexcept {
  const std::lock_guard lock(lock_);
  const BlockIndex index = regions_.retire(address);
  if (index == kNoBlock) [[unlikely]] {
    return Gathered::kNot;
  }
  Block& block = regions_.block(index);
  count_free(block);
  granules_retired_ += block.granules;
  if (figures_ != nullptr) {
    write_retired(index);
  }
  block.use.next_gathered = std::exchange(gathered_.first, index);
  ++gathered_.count;
  gathered_.bytes += std::uint64_t{block.granules} * kGranuleBytes;
  Headroom room = this->room();
  room.free += free_beside;
  return is_epoch_full(gathered_.count, gathered_.bytes, room) ? Gathered::kFull : Gathered::kYes;
}

GatheredBlocks Arena::take_gathered() noexcept {
  const std::lock_guard lock(lock_);
  gathered_.generation = generation_;
  return std::exchange(gathered_, {});
}

bool Arena::has_gathered() const noexcept {
  const std::lock_guard lock(lock_);
  return gathered_.count > 0;
}

// The first blocks of a list, which are about to become free. Precondition: there is a recorder.
[[gnu::noinline]] void Arena::record_reclaimed(BlockIndex first) {
  std::array<FreedBlock, kReclaimedAtOnce> blocks;
  std::size_t count = 0;
  for (BlockIndex index = first; index != kNoBlock && count < blocks.size();
       index = regions_.block(index).use.next_gathered) {
    blocks[count++] = freed_block(index);
  }
  recorder_->reclaimed(std::span(blocks).first(count));
}

[[gnu::flatten]] void Arena::reclaim(const GatheredBlocks& blocks) noexcept {
  for (BlockIndex index = blocks.first; index != kNoBlock;) {
    const std::lock_guard lock(lock_);
    if (blocks.generation != generation_) {
      return;  // their memory went with their context
    }
    if (recorder_ != nullptr) [[unlikely]] {
      record_reclaimed(index);
    }
    for (std::size_t i = 0; i < kReclaimedAtOnce && index != kNoBlock; ++i) {
      const BlockIndex next = regions_.block(index).use.next_gathered;
      make_free(index);
      index = next;
    }
  }
}

Address Arena::revive(const RetiredBlock& block, std::uint64_t bytes, Caller caller) noexcept try {
  constexpr std::uint64_t kMostPadding = 1ULL << 30;
  const std::lock_guard lock(lock_);
  if (block.generation != generation_ || bytes == 0 || block.bytes < bytes ||
      block.bytes - bytes > std::min(std::max(bytes / 4, kGranuleBytes), kMostPadding) ||
      !regions_.is_aligned_for(block.index, bytes)) {
    return 0;
  }
  const Regions::Placed placed = regions_.revive(block.index, bytes);
  granules_in_use_ -= regions_.block(block.index).granules;
  granules_retired_ -= regions_.block(block.index).granules;
  if (figures_ != nullptr) {
    write_reclaimed(block.index);
  }
  if (recorder_ != nullptr) {
    recorder_->reclaimed(std::array{freed_block(block.index)});
  }
  return count_allocation(placed, bytes, caller);
} catch (const std::bad_alloc&) {
  return 0;
}

void Arena::count_free(const Block& block) {
  ++num_frees_;
  padding_ -= block.use.padding;
  if (block.is_marked()) [[unlikely]] {
    marked_bytes_ -= requested_bytes(block);
  }
}

// Of an allocation.
[[gnu::noinline]] void Arena::count_marked(const Block& block) {
  marked_bytes_ += requested_bytes(block);
  peak_marked_bytes_ = std::max(peak_marked_bytes_, marked_bytes_);
}

// Of a live block.
std::uint64_t Arena::requested_bytes(const Block& block) {
  return block.granules * kGranuleBytes - block.use.padding;
}

// Whenever pool_bytes_ may have risen.
void Arena::count_pool_peaks() noexcept {
  peak_pool_bytes_ = std::max(peak_pool_bytes_, pool_bytes_);
  marked_peak_pool_bytes_ = std::max(marked_peak_pool_bytes_, pool_bytes_);
}

Marked Arena::marked() const noexcept {
  const std::lock_guard lock(lock_);
  return {marked_bytes_, peak_marked_bytes_, pool_bytes_, marked_peak_pool_bytes_};
}

void Arena::restart_marked_peak() noexcept {
  const std::lock_guard lock(lock_);
  peak_marked_bytes_ = marked_bytes_;
}

void Arena::restart_marked_pool_peak() noexcept {
  const std::lock_guard lock(lock_);
  marked_peak_pool_bytes_ = pool_bytes_;
}

BlockInfo Arena::info_of(BlockIndex index) const {
  const Block& block = regions_.block(index);
  return {regions_.address_of(index), requested_bytes(block), regions_.bytes_of(index), block.id()};
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
  budget_.release(pool_bytes_);  // who was refused may try again
  regions_.clear();
  gathered_ = {};
  ++generation_;
  lost_blocks_ = num_allocs() - num_frees_;
  granules_in_use_ = 0;
  granules_retired_ = 0;
  marked_bytes_ = 0;
  padding_ = 0;
  usable_bytes_ = 0;
  pool_bytes_ = 0;
  write_abandoned();
}

void Arena::begin(const Options& options) noexcept {
  const std::lock_guard lock(lock_);
  set_options(options);
}

void Arena::refresh_figures() noexcept {
  const std::lock_guard lock(lock_);
  write_resized();
}

Headroom Arena::headroom() const noexcept {
  const std::lock_guard lock(lock_);
  Headroom room = this->room();
  room.to_grow = source_is_dry_ ? 0 : budget_.left();
  return room;
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
      const Block& block = regions_.block(index);
      if (block.state != BlockState::kVacant && block.state != BlockState::kMoving) {
        const bool is_marked = block.state == BlockState::kLive && block.is_marked();
        blocks.push_back({regions_.address_of(index), regions_.bytes_of(index), block.state,
                          is_marked ? requested_bytes(block) : 0});
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
  std::uint64_t marked = 0;
  for (const BlockSnapshot& block : snapshot()) {
    marked += block.marked_bytes;
    usable += block.bytes;
    in_use += block.state == BlockState::kFree ? 0 : block.bytes;
    retired += block.state == BlockState::kRetired ? block.bytes : 0;
  }
  const std::lock_guard lock(lock_);
  std::string problems = regions_.verify();
  if (in_use != granules_in_use_ * kGranuleBytes || retired != granules_retired_ * kGranuleBytes ||
      marked != marked_bytes_ || usable != usable_bytes_) {
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
