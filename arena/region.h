// A region of an arena: what its memory source gave, with the blocks that cover it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "arena/block.h"
#include "arena/units.h"

namespace cubfc::arena {

struct alignas(64) Region {   // its size is a power of two, so that indexing takes a shift
  Address obtained_base = 0;  // what the memory source gave; 0: no region has this index
  std::uint64_t obtained_bytes = 0;
  Address base = 0;            // the starts of its blocks count granules from here
  std::uint32_t first = 0;     // where its first block starts; in a slice, behind the lead
  std::uint32_t granules = 0;  // of all its blocks together
  bool own = false;            // it is for one block: Regions::Kind::kOwn
  BlockIndex edge = kNoBlock;  // its `next` is the first block, its `previous` the last
  // A region that was obtained later, by any arena of the process, has a higher number.
  std::uint64_t number = 0;

  bool exists() const { return obtained_base != 0; }
  Address end() const { return obtained_base + obtained_bytes; }
  std::size_t stretches() const;  // parts of 4 MiB that its blocks cover: see landmarks_

 private:
  friend class Regions;
  // For each stretch of 4 MiB, the block that was last handed out or found there. A search for the
  // block around an address starts at a landmark, not at the region's first block. By then the
  // landmark's record may be unused, or another block's: the search must check that.
  std::unique_ptr<BlockIndex[]> landmarks_;
};

// lead_for(): the bytes at the start of a slice that blocks of `block_bytes` cannot use, because of
// the lead and of their alignment. slice_bytes_for(): the bytes of a slice that has room for such a
// block, at whatever address the slice starts.
constexpr std::uint64_t lead_for(std::uint64_t block_bytes) {
  return std::max(kRegionLeadBytes, alignment_for(block_bytes));
}
constexpr std::uint64_t slice_bytes_for(std::uint64_t block_bytes) {
  return block_bytes + std::max(kRegionLeadBytes + kPageBytes, alignment_for(block_bytes));
}

// The length of a stretch, which has one landmark.
inline constexpr std::uint32_t kStretchGranules = (4U << 20) / kGranuleBytes;
constexpr std::uint32_t stretch_of(std::uint32_t start) {
  return start / kStretchGranules;
}
// The `start` of a region's edge. It lies behind every block, so that a search for the block around
// an address never takes an edge for a block.
inline constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
inline constexpr std::uint32_t kMostGranules = kNowhere / kStretchGranules * kStretchGranules;

// Where memory is to be mapped so that a block fits: `granules`, in whole pages, from the start of
// `vacancy` on. The block also uses the free block in front of the vacancy, and the free block
// behind the vacancy up to `end`.
struct Place {
  BlockIndex vacancy = kNoBlock;
  std::uint32_t granules = 0;
  std::uint64_t end = 0;  // where the block ends, in granules from the start of the region
};

}  // namespace cubfc::arena
