#include "arena/counts.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

namespace cubfc::arena {
namespace {

// Its blocks' numbers begin behind it.
std::uint64_t number_of_arena() {
  static std::atomic<std::uint64_t> arenas{0};
  return (arenas.fetch_add(1, std::memory_order_relaxed) + 1) << 48;
}

}  // namespace

Counts::Counts() : last_number_(number_of_arena()), number_before_first_(last_number_) {}

void Counts::observe(Figures& figures, Observer& observer, const Figure& peaks) noexcept {
  figures_ = &figures;
  put(figures.first_number, number_before_first_);
  put(figures.last_number, last_number_);
  observer_ = &observer;
  recorder_ = observer.records() ? &observer : nullptr;
  peaks_ = &peaks;
}

void Counts::marked_allocated(const Block& block) {
  marked_bytes_ += requested_bytes(block);
  peak_marked_bytes_ = std::max(peak_marked_bytes_, marked_bytes_);
}

void Counts::record_reclaimed(const Regions& regions, BlockIndex index) {
  recorder_->reclaimed(std::array{freed_block(regions, index)});
}

void Counts::record_list_reclaimed(const Regions& regions, BlockIndex first) {
  std::array<FreedBlock, kReclaimedAtOnce> blocks;
  std::size_t count = 0;
  for (BlockIndex index = first; index != kNoBlock && count < blocks.size();
       index = regions.block(index).use.next_gathered) {
    blocks[count++] = freed_block(regions, index);
  }
  recorder_->reclaimed(std::span(blocks).first(count));
}

void Counts::memory_came(Address base, std::uint64_t bytes, std::uint64_t usable) {
  ++regions_obtained_;
  usable_bytes_ += usable;
  pool_bytes_ += bytes;
  peak_pool_bytes_ = std::max(peak_pool_bytes_, pool_bytes_);
  marked_peak_pool_bytes_ = std::max(marked_peak_pool_bytes_, pool_bytes_);
  if (recorder_ != nullptr) {
    recorder_->grew(base, bytes);
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
  if (recorder_ != nullptr) {
    recorder_->shrank(base, bytes);
  }
}

void Counts::write_resized(const Regions& regions) noexcept {
  if (figures_ != nullptr) {
    put(figures_->usable_bytes, usable_bytes_);
    put(figures_->pool_bytes, pool_bytes_);
    put(figures_->peak_pool_bytes, peak_pool_bytes_);
    put(figures_->num_failures, num_failures_);
    put(figures_->regions, regions.count());
    put(figures_->largest_free_block_bytes, regions.largest_fit_bytes());
    observer_->resized();
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
  write_resized(regions);
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
