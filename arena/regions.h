// The regions of an arena and the blocks in them: best fit, split, coalesce, find by address. The
// whole allocator but for locking (arena.h), growth (growth.h) and statistics (counts.h).
//
// Invariants (verify() checks each of them):
//   - the blocks of a region cover it without gap or overlap, linked in address order, in a ring
//     that its edge closes;
//   - no two free blocks are neighbours: a freed block coalesces at once; nor are two vacant ones;
//   - each free block is in exactly one bin; vacant blocks, and free blocks of regions for one
//     block, have bins of their own;
//   - the address table has each live block, and nothing else;
//   - a block in a slice starts on a multiple of the largest power of two that divides its size, up
//     to 2 MiB, counted from where the region starts; one of 2 MiB or more ends on a multiple of 64
//     KiB.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "arena/address_table.h"
#include "arena/bins.h"
#include "arena/block.h"
#include "arena/freed_sizes.h"
#include "arena/region.h"
#include "arena/region_map.h"
#include "arena/units.h"

namespace cubfc::arena {

// Not thread-safe, but for number_at().
class Regions {
 public:
  using Region = arena::Region;

  // The purpose of a region.
  enum class Kind : bool {
    kSlice,  // for many blocks
    kOwn,    // for one block, which is as large as the region
  };
  // Adds a region. False when the region is too small to hold a block, or too large, or there are
  // 65,536 regions. Throws std::bad_alloc and is unchanged then.
  bool add(Address base, std::uint64_t bytes, Kind kind);
  // Adds a region of addresses without memory, as one vacant block: for an arena that maps memory
  // itself. `base` must lie on a page of the memory source.
  bool add_vacant(Address base, std::uint64_t bytes);

  // Forgets every region and block; keeps the host memory for what comes next.
  void clear() noexcept;
  // Whether the region holds no live and no retired block.
  bool is_unused(std::uint16_t region) const;
  // Forgets an unused region. The caller returns it to the source.
  void remove(std::uint16_t region) noexcept;

  // A live block of at least `bytes` in a slice, if there is room. Precondition: 0 < bytes <=
  // kLargestRequestBytes. Throws std::bad_alloc and is unchanged then.
  struct Placed {
    BlockIndex index = kNoBlock;
    Address address = 0;
    explicit operator bool() const { return index != kNoBlock; }
  };
  Placed allocate(std::uint64_t bytes, Search search = Search::kBounded);
  // The same in an unused region for one block, which may be at most an eighth larger than `bytes`.
  Placed allocate_own(std::uint64_t bytes);
  bool has_unused_own() const { return own_holes_.largest_fit_bytes(blocks_) > 0; }
  // Turns an unused region for one block into a slice that has room for a block of `block_bytes`.
  // Prefers a small region. Returns the bytes that the region has lost for its lead; 0 if there is
  // no such region.
  std::uint64_t make_slice_of_own(std::uint64_t block_bytes);

  // Makes the live block that starts at `address` retired: no longer found by its address, and not
  // yet free. kNoBlock when no live block starts there.
  BlockIndex retire(Address address);
  // Whether the block's start is aligned for a request of `bytes`.
  bool is_aligned_for(BlockIndex index, std::uint64_t bytes) const;
  // Makes a retired block live again, for a request of `bytes`. Throws std::bad_alloc and changes
  // nothing then. Precondition: the block is at least as large as the request, and less than 4 GiB
  // larger.
  Placed revive(BlockIndex index, std::uint64_t bytes);
  // Makes a retired block free and coalesces it with both neighbours. Never fails.
  void reclaim(BlockIndex index);

  using Place = arena::Place;
  // The place for a block of `block_bytes` where the least memory must be mapped; of several the
  // one at the lowest address. Its `vacancy` is kNoBlock when no place is large enough. Looks at
  // every vacant block.
  Place place_for(std::uint64_t block_bytes, std::uint32_t page_granules) const;
  // Cuts a part out of a free or vacant block, so that memory can be mapped or unmapped there. The
  // part is moving until settle(). Precondition: reserve_for_moves(count) was called, and fewer
  // than `count` parts have been taken out since.
  BlockIndex take_out(BlockIndex index, std::uint32_t start, std::uint32_t granules);
  void reserve_for_moves(std::uint32_t count) { blocks_.reserve(2 * count); }
  // Makes a part that was taken out free or vacant, and coalesces it. Never fails.
  void settle(BlockIndex index, BlockState state);
  // Calls `visit` with each free block of at least so many granules and perhaps with smaller ones.
  template <typename Visit>
  void for_each_free_from(std::uint32_t granules, Visit visit) const {
    bins_.for_each_from(blocks_, granules, visit);
  }

  // The live block that starts at / contains `address`, or kNoBlock.
  BlockIndex find(Address address) const;
  BlockIndex find_containing(Address address) const;
  // The live block that contains `address`, else the next live block in its region; kNoBlock if
  // none.
  BlockIndex find_live_from(Address address) const;
  // The region in whose bytes, unused lead included, `address` lies; nullptr if none.
  const Region* region_around(Address address) const;
  // The number of that region, or 0. Thread-safe.
  std::uint64_t number_at(Address address) const noexcept { return map_.number_at(address); }

  const Block& block(BlockIndex index) const { return blocks_[index]; }
  Block& block(BlockIndex index) { return blocks_[index]; }
  Address address_of(BlockIndex index) const { return address_of(blocks_[index]); }
  std::uint64_t bytes_of(BlockIndex index) const {
    return std::uint64_t{blocks_[index].granules} * kGranuleBytes;
  }
  // By index (Block::region); some may not exist.
  const std::vector<Region>& all() const { return regions_; }
  std::size_t count() const { return by_address_.size(); }
  // The indices of the regions that exist, in address order.
  const std::vector<std::uint16_t>& numbers() const { return by_address_; }
  std::uint64_t largest_fit_bytes() const {
    return std::max(bins_.largest_fit_bytes(blocks_), own_holes_.largest_fit_bytes(blocks_));
  }
  std::size_t host_bytes() const;

  // What is wrong, one line each; empty when every invariant holds. Walks everything.
  std::string verify() const;

 private:
  BlockIndex find_covering(Address address) const;
  struct LiesAt;
  Address address_of(const Block& block) const {
    return regions_[block.region].base + std::uint64_t{block.start} * kGranuleBytes;
  }
  bool add(Region region, BlockState state);
  // The bins in which free blocks of the region are filed.
  Bins& bins_of(const Region& region) { return region.own ? own_holes_ : bins_; }
  Placed hand_out(BlockIndex index, std::uint64_t bytes);
  BlockIndex cut(Bins& bins, BlockIndex hole_index, std::uint32_t start, std::uint32_t granules);
  void reclaim_unlike_most(BlockIndex index);
  void add_rest(Bins& bins, BlockIndex behind, std::uint32_t granules, BlockState state);
  void coalesce(Bins& bins, BlockIndex index, BlockState state);
  void link_between(BlockIndex previous, BlockIndex index, BlockIndex next);
  void unlink(const Block& block);
  void publish_map() noexcept;
  void verify_region(std::uint16_t number, std::uint64_t& free_blocks, std::uint64_t& live_blocks,
                     std::uint64_t& vacancies, std::string& problems) const;

  BlockSlab blocks_;
  Bins bins_;
  Bins own_holes_;  // the free blocks of unused regions for one block
  Bins vacancies_{BlockState::kVacant};
  AddressTable table_;
  FreedSizes freed_sizes_;
  std::vector<Region> regions_;               // by index; a removed region's index is reused
  std::vector<std::uint16_t> by_address_;     // indices of the regions, in address order
  RegionMap map_;                             // the same regions, for number_at()
  std::vector<RegionMap::Region> map_draft_;  // reserved: publish_map() must not fail
};

}  // namespace cubfc::arena

#include "arena/regions_inline.h"
