// A region of an arena: what its memory source gave, with the blocks that cover it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "arena/block.h"
#include "arena/units.h"

namespace cubfc::arena {

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
constexpr std::uint64_t lead_for(std::uint64_t block_bytes) {
  return std::max(kRegionLeadBytes, alignment_for(block_bytes));
}
constexpr std::uint64_t slice_bytes_for(std::uint64_t block_bytes) {
  return block_bytes + std::max(kRegionLeadBytes + kPageBytes, alignment_for(block_bytes));
}

// Between two landmarks.
inline constexpr std::uint32_t kStretchGranules = (4U << 20) / kGranuleBytes;
constexpr std::uint32_t stretch_of(std::uint32_t start) {
  return start / kStretchGranules;
}
// Where the edge of a region starts: in a stretch that no block starts in.
inline constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
inline constexpr std::uint32_t kMostGranules = kNowhere / kStretchGranules * kStretchGranules;

// Where memory is to be mapped so that a block fits: so many granules, whole pages, from the
// start of `vacancy` on. What is free in front of it is made use of, and what is free behind it
// as far as `end`.
struct Place {
  BlockIndex vacancy = kNoBlock;
  std::uint32_t granules = 0;
  std::uint64_t end = 0;  // of the block, from the start of the region
};

}  // namespace cubfc::arena
