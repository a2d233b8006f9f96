// The regions of an arena and the blocks in them: best fit, split, coalesce, find by address. The
// whole allocator but for locking (arena.h), growth (growth.h) and statistics (counts.h).
//
// Invariants (verify() checks each of them):
//   - the blocks of a region cover it without gap or overlap, linked in address order, in a ring
//     that its edge closes;
//   - no two free blocks are neighbours: a freed block coalesces at once; nor are two vacant ones;
//   - each free block is in exactly one bin, those of regions of one block's in bins of their own,
//     each vacant one in one of the vacancies' bins, each live block in the address table, nothing
//     else is;
//   - a block in a slice starts on a multiple of the largest power of two that divides its size, up
//     to 2 MiB, counted from where the region starts; one of 2 MiB or more ends on a multiple of 64
//     KiB.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arena/address_table.h"
#include "arena/bins.h"
#include "arena/block.h"
#include "arena/region_map.h"
#include "arena/units.h"

namespace cubfc::arena {

// Not thread-safe, but for number_at().
class Regions {
 public:
  struct alignas(64) Region {   // of a power of two bytes: found by a shift
    Address obtained_base = 0;  // what the memory source gave; 0: no region has this number
    std::uint64_t obtained_bytes = 0;
    Address base = 0;            // granules count from here
    std::uint32_t first = 0;     // where its blocks begin: of a slice, behind the unused lead
    std::uint32_t granules = 0;  // of its blocks
    bool own = false;            // it is one block's
    BlockIndex edge = kNoBlock;  // its next is the first block, its previous the last
    // Grows in the order in which the process's regions were obtained, by whatever arena.
    std::uint64_t number = 0;

    bool exists() const { return obtained_base != 0; }
    Address end() const { return obtained_base + obtained_bytes; }
    std::size_t stretches() const;  // of its blocks: each has a landmark at most

   private:
    friend class Regions;
    // To find the block around any address without a walk from the region's start: for each stretch
    // of 4 MiB the block that was last handed out, or found, there. By now its record may be
    // unused, or another block's: who looks must see to that.
    std::unique_ptr<BlockIndex[]> landmarks_;
  };

  // What of a slice cannot be used by blocks of `block_bytes`, because of the lead and their
  // alignment; and the bytes of one that holds a block, wherever it starts.
  static constexpr std::uint64_t lead_for(std::uint64_t block_bytes) {
    return std::max(kRegionLeadBytes, alignment_for(block_bytes));
  }
  static constexpr std::uint64_t slice_bytes_for(std::uint64_t block_bytes) {
    return block_bytes + std::max(kRegionLeadBytes + kPageBytes, alignment_for(block_bytes));
  }

  // What a region that the source gave is for.
  enum class Kind : bool {
    kSlice,  // for many blocks
    kOwn,    // for one block, which is as large as the region
  };
  // Adds it. False when it is too small to hold a block or there are 65,536 regions. Throws
  // std::bad_alloc and is unchanged then.
  bool add(Address base, std::uint64_t bytes, Kind kind);

  // Adds addresses without memory, one vacant block: for an arena that maps memory itself. They
  // start on a page of the source's. As add() otherwise.
  bool add_vacant(Address base, std::uint64_t bytes);

  // Forgets every region and block; keeps the host memory for what comes next.
  void clear() noexcept;

  // Whether it holds no live and no retired block.
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
  // A region of its own that is unused and at most an eighth larger. As above.
  Placed allocate_own(std::uint64_t bytes);
  bool has_unused_own() const { return own_holes_.largest_fit_bytes(blocks_) > 0; }
  // Makes a slice of an unused region of one block's, the smallest that holds a block of
  // `block_bytes` then. Returns the bytes that it has lost for its lead; 0 when there is none.
  std::uint64_t make_slice_of_own(std::uint64_t block_bytes);

  // Takes the live block that starts at `address` away from the program without making it free.
  // kNoBlock when there is none.
  BlockIndex retire(Address address) {
    const BlockIndex index = table_.take(address, LiesAt{*this, address});
    if (index != kNoBlock) {
      blocks_[index].state = BlockState::kRetired;
    }
    return index;
  }
  // Whether a request of so many bytes may have the block, by where it starts.
  bool is_aligned_for(BlockIndex index, std::uint64_t bytes) const {
    const Block& block = blocks_[index];
    return regions_[block.region].own ||
           block.start % (alignment_for(block_bytes_for(bytes)) / kGranuleBytes) == 0;
  }
  // A retired block is live again, for a request that it is large enough for. Throws std::bad_alloc
  // and changes nothing then. Precondition: it is less than 4 GiB larger.
  Placed revive(BlockIndex index, std::uint64_t bytes);
  // Makes a retired block free and coalesces it with both neighbours. Never fails.
  void reclaim(BlockIndex index);

  // Where memory is to be mapped so that a block fits: so many granules, whole pages, from the
  // start of `vacancy` on. What is free in front of it is made use of, and what is free behind it
  // as far as `end`.
  struct Place {
    BlockIndex vacancy = kNoBlock;
    std::uint32_t granules = 0;
    std::uint64_t end = 0;  // of the block, from the start of the region
  };
  // The place that takes least memory; of several the first. No vacancy when no place is large
  // enough. Looks at every vacancy.
  Place place_for(std::uint64_t block_bytes, std::uint32_t page_granules) const;
  // A part of a free or vacant block, taken out of it for memory to be mapped or unmapped there.
  // Precondition: reserve_for_moves() of all that are taken before the next reserve.
  BlockIndex take_out(BlockIndex index, std::uint32_t start, std::uint32_t granules);
  void reserve_for_moves(std::uint32_t count) { blocks_.reserve(2 * count); }
  // It is free now, or vacant, and coalesces. Never fails.
  void settle(BlockIndex index, BlockState state);
  // Calls `visit` with each free block of at least so many granules and perhaps with smaller ones.
  template <typename Visit>
  void for_each_free_from(std::uint32_t granules, Visit visit) const {
    bins_.for_each_from(blocks_, granules, visit);
  }

  // The live block that starts at / contains `address`, or kNoBlock.
  BlockIndex find(Address address) const { return table_.find(address, LiesAt{*this, address}); }
  BlockIndex find_containing(Address address) const;
  // The one that contains it, else the next one in its region; kNoBlock if there is none.
  BlockIndex find_live_from(Address address) const;
  // The region in whose bytes, unused lead included, `address` lies; nullptr if none.
  const Region* region_around(Address address) const;
  // Its number, or 0. Thread-safe.
  std::uint64_t number_at(Address address) const noexcept { return map_.number_at(address); }

  const Block& block(BlockIndex index) const { return blocks_[index]; }
  Block& block(BlockIndex index) { return blocks_[index]; }
  Address address_of(BlockIndex index) const { return address_of(blocks_[index]); }
  std::uint64_t bytes_of(BlockIndex index) const {
    return std::uint64_t{blocks_[index].granules} * kGranuleBytes;
  }
  // By number, with gaps.
  const std::vector<Region>& all() const { return regions_; }
  std::size_t count() const { return by_address_.size(); }
  // Of those that are there, in the order of their addresses.
  const std::vector<std::uint16_t>& numbers() const { return by_address_; }
  std::uint64_t largest_fit_bytes() const {
    return std::max(bins_.largest_fit_bytes(blocks_), own_holes_.largest_fit_bytes(blocks_));
  }
  std::size_t host_bytes() const;

  // What is wrong, one line each; empty when every invariant holds. Walks everything.
  std::string verify() const;

 private:
  // Between two landmarks.
  static constexpr std::uint32_t kStretchGranules = (4U << 20) / kGranuleBytes;
  static constexpr std::uint32_t stretch_of(std::uint32_t start) {
    return start / kStretchGranules;
  }
  // Where the edge of a region starts: in a stretch that no block starts in.
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  static constexpr std::uint32_t kMostGranules = kNowhere / kStretchGranules * kStretchGranules;

  BlockIndex find_covering(Address address) const;
  struct LiesAt {
    const Regions& regions;
    Address address;
    bool operator()(BlockIndex index) const { return regions.address_of(index) == address; }
  };

  // Which sizes have been freed before, one bit for each hash of a size.
  class FreedSizes {
   public:
    void add(std::uint32_t granules) { words_[word_of(granules)] |= bit_of(granules); }
    bool has(std::uint32_t granules) const {
      return (words_[word_of(granules)] & bit_of(granules)) != 0;
    }
    void clear() noexcept { words_.fill(0); }

   private:
    static constexpr std::uint32_t kHashBits = 12;
    static std::uint32_t hash_of(std::uint32_t granules) {
      return (granules * 0x9E3779B1U) >> (32 - kHashBits);
    }
    static std::uint32_t word_of(std::uint32_t granules) { return hash_of(granules) / 64; }
    static std::uint64_t bit_of(std::uint32_t granules) {
      return std::uint64_t{1} << (hash_of(granules) % 64);
    }

    std::array<std::uint64_t, (1U << kHashBits) / 64> words_{};
  };

  Address address_of(const Block& block) const {
    return regions_[block.region].base + std::uint64_t{block.start} * kGranuleBytes;
  }
  bool add(Region region, BlockState state);
  // Where a free block of the region is filed.
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
  Bins own_holes_;  // unused regions of one block's
  Bins vacancies_{BlockState::kVacant};
  AddressTable table_;
  FreedSizes freed_sizes_;
  std::vector<Region> regions_;               // by number; a removed one's place is reused
  std::vector<std::uint16_t> by_address_;     // numbers of the regions, in address order
  RegionMap map_;                             // the same for number_at()
  std::vector<RegionMap::Region> map_draft_;  // publish_map() must not fail
};

}  // namespace cubfc::arena

#include "arena/regions_inline.h"
