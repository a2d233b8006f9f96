// The regions of an arena and the blocks in them: best fit, split, coalesce, find by address. The
// whole allocator but for locking, growth and limits (arena.h).
//
// Invariants (verify() checks each of them):
//   - the blocks of a region cover it without gap or overlap, linked in address order;
//   - no two free blocks are neighbours: a freed block coalesces at once;
//   - each free block is in exactly one bin, each live block in the address table, nothing else is;
//   - a block of 64 KiB or more starts and ends on a multiple of 64 KiB;
//   - the landmark of a MiB is a block that starts in it, if there is one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arena/address_table.h"
#include "arena/bins.h"
#include "arena/block.h"
#include "arena/units.h"

namespace cubfc::arena {

// Not thread-safe.
class Regions {
 public:
  struct Region {
    Address obtained_base = 0;  // what the memory source gave; 0: no region has this number
    std::uint64_t obtained_bytes = 0;
    Address base = 0;            // where its blocks begin: page-aligned, behind the unused lead
    std::uint32_t granules = 0;  // of its blocks
    BlockIndex first = kNoBlock;
    // Grows in the order in which the process's regions were obtained, by whatever arena.
    std::uint64_t number = 0;

    bool exists() const { return obtained_base != 0; }
    Address end() const { return obtained_base + obtained_bytes; }

   private:
    friend class Regions;
    // To find the block around any address without a walk from the region's start: for each MiB a
    // block that starts in it, and a bitmap of those that have one.
    std::vector<BlockIndex> landmarks_;
    std::vector<std::uint64_t> marked_;
  };

  // Bytes of a region that holds one block of `block_bytes`, wherever the region starts.
  static constexpr std::uint64_t region_bytes_for(std::uint64_t block_bytes) {
    return block_bytes + kRegionLeadBytes + kPageBytes;
  }

  // Adds what the source gave. False when it is too small to hold a block or there are 65,535
  // regions. Throws std::bad_alloc and is unchanged then.
  bool add(Address base, std::uint64_t bytes);

  // Forgets every region and block; keeps the host memory for what comes next.
  void clear() noexcept;

  // The numbers of the regions that hold no live and no retired block.
  std::vector<std::uint16_t> unused() const;
  // Forgets an unused region. The caller returns it to the source.
  void remove(std::uint16_t region);

  // A live block of at least `bytes`, or kNoBlock. Precondition: 0 < bytes <= kLargestRequestBytes.
  // Throws std::bad_alloc and is unchanged then.
  BlockIndex allocate(std::uint64_t bytes);

  // Takes a live block away from the program without making it free. Never fails.
  void retire(BlockIndex index);
  // Makes a retired block free and coalesces it with both neighbours. Never fails.
  void reclaim(BlockIndex index);

  // The live block that starts at / contains `address`, or kNoBlock.
  BlockIndex find(Address address) const;
  BlockIndex find_containing(Address address) const;
  // The region in whose bytes, unused lead included, `address` lies; nullptr if none.
  const Region* region_around(Address address) const;

  const Block& block(BlockIndex index) const { return blocks_[index]; }
  Block& block(BlockIndex index) { return blocks_[index]; }
  Address address_of(BlockIndex index) const {
    const Block& block = blocks_[index];
    return regions_[block.region].base + std::uint64_t{block.start} * kGranuleBytes;
  }
  std::uint64_t bytes_of(BlockIndex index) const {
    return std::uint64_t{blocks_[index].granules} * kGranuleBytes;
  }
  const std::vector<Region>& all() const { return regions_; }
  std::uint64_t largest_fit_bytes() const { return bins_.largest_fit_bytes(); }
  std::size_t host_bytes() const;

  // What is wrong, one line each; empty when every invariant holds. Walks everything.
  std::string verify() const;

 private:
  BlockIndex split(BlockIndex index, std::uint32_t granules);
  BlockIndex coalesce_with_next(BlockIndex index);
  void add_landmark(BlockIndex index);
  void drop_landmark(BlockIndex index);
  void verify_region(std::uint16_t number, std::uint64_t& free_blocks, std::uint64_t& live_blocks,
                     std::string& problems) const;

  BlockSlab blocks_;
  Bins bins_{blocks_};
  AddressTable table_;
  std::vector<Region> regions_;            // by number; a removed one's place is reused
  std::vector<std::uint16_t> by_address_;  // numbers of the regions, in address order
};

}  // namespace cubfc::arena
