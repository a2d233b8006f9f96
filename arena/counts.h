// The statistics of an arena: of its blocks at each call, and of its memory when that changes. Each
// change is written to the Figures and told to the Observer at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/block.h"
#include "arena/epoch.h"
#include "arena/figure_writer.h"
#include "arena/figures.h"
#include "arena/regions.h"
#include "arena/stats.h"
#include "arena/units.h"

namespace cubfc::arena {

// Not thread-safe: the arena's lock is held at each call. The record of a block that is passed must
// have the block's size, number and padding, whatever the block's state is.
class Counts {
 public:
  Counts();

  // See Arena::observe() and Arena::watch().
  void observe(Figures& figures, Observer& observer, const Figure& peaks) noexcept;
  void watch() noexcept { writer_.watch(); }
  // The observer, if it is to be told of each block; else nullptr.
  Observer* recorder() const noexcept { return writer_.recorder(); }

  // Counts an allocation, and gives the block its number. Returns the block's address.
  Address allocated(Block& block, Address address, std::uint64_t bytes, Caller caller) {
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
      marked_allocated(block);
    }
    if (writer_.figures() != nullptr) {
      writer_.allocated(block, address, bytes, granules_in_use_);
    }
    return address;
  }

  // A live block becomes free at once (freed), or waits until it is reclaimed (retired).
  void freed(const Regions& regions, BlockIndex index) {
    const Block& block = regions.block(index);
    no_longer_live(block);
    granules_in_use_ -= block.granules;
    if (Figures* const figures = writer_.figures(); figures != nullptr) {
      put(figures->num_frees, num_frees_);
      writer_.unused(block, granules_in_use_);
      if (recorder() != nullptr) [[unlikely]] {
        recorder()->freed(freed_block(regions, index));
      }
    }
  }
  void retired(const Regions& regions, BlockIndex index) {
    const Block& block = regions.block(index);
    no_longer_live(block);
    granules_retired_ += block.granules;
    if (Figures* const figures = writer_.figures(); figures != nullptr) {
      put(figures->num_frees, num_frees_);
      put(figures->granules_retired, granules_retired_);
      if (recorder() != nullptr) [[unlikely]] {
        recorder()->retired(freed_block(regions, index));
      }
    }
  }
  // A retired block becomes free. The recorder is told by record_reclaimed() or
  // record_list_reclaimed().
  void reclaimed(const Block& block) {
    granules_retired_ -= block.granules;
    granules_in_use_ -= block.granules;
    if (Figures* const figures = writer_.figures(); figures != nullptr) {
      put(figures->granules_retired, granules_retired_);
      writer_.unused(block, granules_in_use_);
    }
  }
  // Tell the recorder of one block, or of up to kReclaimedAtOnce blocks of a list. Precondition:
  // there is a recorder, and the records of the blocks are not in use for other blocks yet.
  static constexpr std::size_t kReclaimedAtOnce = 32;
  void record_reclaimed(const Regions& regions, BlockIndex index);
  void record_list_reclaimed(const Regions& regions, BlockIndex first);

  // The arena has obtained, or given back, a region, or pages: `usable` of its bytes are for
  // blocks.
  void memory_came(Address base, std::uint64_t bytes, std::uint64_t usable);
  void memory_went(Address base, std::uint64_t bytes, std::uint64_t usable);
  // memory_went() in two steps, for pages that may turn out to stay. First memory_leaves(); then
  // memory_left() for what was unmapped, and memory_stays() for what was not.
  void memory_leaves(std::uint64_t bytes);
  void memory_stays(std::uint64_t bytes);
  void memory_left(Address base, std::uint64_t bytes);
  // Tells the observer of memory that comes back to its addresses. The arena has counted it all the
  // while.
  void memory_returned(Address base, std::uint64_t bytes);
  // `bytes` of the arena's memory are no longer for blocks.
  void became_unusable(std::uint64_t bytes) { usable_bytes_ -= bytes; }
  // Writes the figures of memory. To be called after the functions above, and after a failure.
  void write_resized(const Regions& regions) noexcept;

  void failed() { ++num_failures_; }
  // All blocks and all memory are gone; the regions are empty.
  void abandoned(const Regions& regions) noexcept;

  std::uint64_t bytes_in_use() const { return granules_in_use_ * kGranuleBytes; }
  std::uint64_t peak_bytes_in_use() const { return peak_granules_in_use_ * kGranuleBytes; }
  std::uint64_t bytes_retired() const { return granules_retired_ * kGranuleBytes; }
  std::uint64_t usable_bytes() const { return usable_bytes_; }
  std::uint64_t pool_bytes() const { return pool_bytes_; }
  std::uint64_t regions_obtained() const { return regions_obtained_; }
  // Free, though perhaps not in one piece.
  std::uint64_t free_bytes() const { return usable_bytes_ - bytes_in_use(); }
  // All of Headroom but `to_grow`.
  Headroom room() const noexcept {
    return {peak_bytes_in_use(), free_bytes(), bytes_retired(), 0, bytes_in_use()};
  }
  // All of Stats but what the regions and the budget know.
  Stats stats() const noexcept;
  Marked marked() const noexcept;
  void restart_marked_peak() noexcept { peak_marked_bytes_ = marked_bytes_; }
  void restart_marked_pool_peak() noexcept { marked_peak_pool_bytes_ = pool_bytes_; }

 private:
  static FreedBlock freed_block(const Regions& regions, BlockIndex index) {
    return {regions.address_of(index), regions.bytes_of(index)};
  }
  std::uint64_t num_allocs() const noexcept;
  void no_longer_live(const Block& block) {
    ++num_frees_;
    padding_ -= block.use.padding;
    if (block.is_marked()) [[unlikely]] {
      marked_bytes_ -= block.requested_bytes();
    }
  }
  void marked_allocated(const Block& block);

  FigureWriter writer_;
  // What each allocation and each free counts, down to granules_retired_; stats() derives the rest.
  std::uint64_t last_number_;  // see Block::number()
  std::uint64_t num_frees_ = 0;
  std::uint64_t granules_in_use_ = 0;  // of live and retired blocks
  std::uint64_t peak_granules_in_use_ = 0;
  std::uint64_t padding_ = 0;  // bytes of live blocks beyond what was asked for
  std::uint64_t largest_request_ = 0;
  std::uint64_t granules_retired_ = 0;
  const std::uint64_t number_before_first_;
  std::uint64_t num_failures_ = 0;
  std::uint64_t lost_blocks_ = 0;  // neither freed nor live: they were abandoned
  std::uint64_t regions_obtained_ = 0;
  std::uint64_t usable_bytes_ = 0;  // of regions, less their unused leads
  std::uint64_t pool_bytes_ = 0;    // of regions, as obtained
  std::uint64_t peak_pool_bytes_ = 0;
  std::uint64_t marked_bytes_ = 0;
  std::uint64_t peak_marked_bytes_ = 0;
  std::uint64_t marked_peak_pool_bytes_ = 0;
};

}  // namespace cubfc::arena
