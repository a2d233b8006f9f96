#include "arena/counts.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

namespace cubfc::arena {
namespace {

// The number just before that of a new arena's first block.
std::uint64_t number_of_arena() {
  static std::atomic<std::uint64_t> arenas{0};
  return (arenas.fetch_add(1, std::memory_order_relaxed) + 1) << 48;
}

}  // namespace

Counts::Counts() : last_number_(number_of_arena()), number_before_first_(last_number_) {}

void Counts::observe(Figures& figures, Observer& observer, const Figure& peaks) noexcept {
  put(figures.first_number, number_before_first_);
  put(figures.last_number, last_number_);
  writer_.observe(figures, observer, peaks);
}

void Counts::marked_allocated(const Block& block) {
  marked_bytes_ += block.requested_bytes();
  peak_marked_bytes_ = std::max(peak_marked_bytes_, marked_bytes_);
}

void Counts::record_reclaimed(const Regions& regions, BlockIndex index) {
  recorder()->reclaimed(std::array{freed_block(regions, index)});
}

void Counts::record_list_reclaimed(const Regions& regions, BlockIndex first) {
  std::array<FreedBlock, kReclaimedAtOnce> blocks;
  std::size_t count = 0;
  for (BlockIndex index = first; index != kNoBlock && count < blocks.size();
       index = regions.block(index).use.next_gathered) {
    blocks[count++] = freed_block(regions, index);
  }
  recorder()->reclaimed(std::span(blocks).first(count));
}

void Counts::memory_came(Address base, std::uint64_t bytes, std::uint64_t usable) {
  ++regions_obtained_;
  usable_bytes_ += usable;
  pool_bytes_ += bytes;
  peak_pool_bytes_ = std::max(peak_pool_bytes_, pool_bytes_);
  marked_peak_pool_bytes_ = std::max(marked_peak_pool_bytes_, pool_bytes_);
  if (recorder() != nullptr) {
    recorder()->grew(base, bytes);
  }
}

void Counts::memory_went(Address base, std::uint64_t bytes, std::uint64_t usable) {
  usable_bytes_ -= usable;
  pool_bytes_ -= bytes;
  memory_left(base, bytes);
}

void Counts::memory_leaves(std::uint64_t bytes) {
  pool_bytes_ -= bytes;
  usable_bytes_ -= bytes;
}

void Counts::memory_stays(std::uint64_t bytes) {
  pool_bytes_ += bytes;
  usable_bytes_ += bytes;
}

void Counts::memory_left(Address base, std::uint64_t bytes) {
  if (recorder() != nullptr) {
    recorder()->shrank(base, bytes);
  }
}

void Counts::memory_returned(Address base, std::uint64_t bytes) {
  if (recorder() != nullptr) {
    recorder()->grew(base, bytes);
  }
}

void Counts::write_resized(const Regions& regions) noexcept {
  if (Figures* const figures = writer_.figures(); figures != nullptr) {
    put(figures->usable_bytes, usable_bytes_);
    put(figures->pool_bytes, pool_bytes_);
    put(figures->peak_pool_bytes, peak_pool_bytes_);
    put(figures->num_failures, num_failures_);
    put(figures->regions, regions.count());
    put(figures->largest_free_block_bytes, regions.largest_fit_bytes());
    writer_.resized();
  }
}

void Counts::abandoned(const Regions& regions) noexcept {
  lost_blocks_ = num_allocs() - num_frees_;
  granules_in_use_ = 0;
  granules_retired_ = 0;
  marked_bytes_ = 0;
  padding_ = 0;
  usable_bytes_ = 0;
  pool_bytes_ = 0;
  if (writer_.figures() == nullptr) {
    return;
  }
  writer_.abandoned();
  write_resized(regions);
}

std::uint64_t Counts::num_allocs() const noexcept {
  return (last_number_ - number_before_first_) / Block::kNumberStep;
}

Stats Counts::stats() const noexcept {
  Stats stats;
  stats.num_allocs = num_allocs();
  stats.num_frees = num_frees_;
  stats.num_failures = num_failures_;
  stats.live_blocks = stats.num_allocs - num_frees_ - lost_blocks_;
  stats.bytes_in_use = bytes_in_use();
  stats.peak_bytes_in_use = peak_bytes_in_use();
  stats.bytes_retired = bytes_retired();
  stats.bytes_requested = stats.bytes_in_use - stats.bytes_retired - padding_;
  stats.largest_alloc_size = largest_request_;
  stats.regions_obtained = regions_obtained_;
  stats.usable_bytes = usable_bytes_;
  stats.pool_bytes = pool_bytes_;
  stats.peak_pool_bytes = peak_pool_bytes_;
  return stats;
}

Marked Counts::marked() const noexcept {
  return {marked_bytes_, peak_marked_bytes_, pool_bytes_, marked_peak_pool_bytes_};
}

}  // namespace cubfc::arena
