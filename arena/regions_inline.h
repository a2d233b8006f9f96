// The functions of Regions that each allocation and each free calls. They are inline, so that each
// function of Arena that calls them becomes one piece of code. Included by regions.h.
#pragma once

#include "arena/regions.h"

namespace cubfc::arena {

struct Regions::LiesAt {
  const Regions& regions;
  Address address;
  bool operator()(BlockIndex index) const { return regions.address_of(index) == address; }
};

inline BlockIndex Regions::retire(Address address) {
  const BlockIndex index = table_.take(address, LiesAt{*this, address});
  if (index != kNoBlock) {
    blocks_[index].state = BlockState::kRetired;
  }
  return index;
}

inline bool Regions::is_aligned_for(BlockIndex index, std::uint64_t bytes) const {
  const Block& block = blocks_[index];
  return regions_[block.region].own ||
         block.start % (alignment_for(block_bytes_for(bytes)) / kGranuleBytes) == 0;
}

inline BlockIndex Regions::find(Address address) const {
  return table_.find(address, LiesAt{*this, address});
}

inline void Regions::link_between(BlockIndex previous, BlockIndex index, BlockIndex next) {
  blocks_[index].previous = previous;
  blocks_[index].next = next;
  blocks_[previous].next = index;
  blocks_[next].previous = index;
}

// Links the neighbours of a block with each other; the block's own links stay as they are.
inline void Regions::unlink(const Block& block) {
  blocks_[block.previous].next = block.next;
  blocks_[block.next].previous = block.previous;
}

inline Regions::Placed Regions::allocate(std::uint64_t bytes, Search search) {
  const std::uint32_t granules = granules_for(bytes);
  const std::uint32_t alignment = alignment_of(granules);
  const BlockIndex hole = bins_.find(blocks_, {granules, alignment}, search);
  if (hole == kNoBlock) [[unlikely]] {
    return {};
  }
  blocks_.reserve(2);
  table_.reserve_one();  // from here on nothing throws

  // Against fragmentation, blocks that stay are cut from the start of a hole, blocks that come and
  // go from its end. A block counts as one that comes and goes when its size has been freed before.
  const Block& place = blocks_[hole];
  const bool comes_and_goes = freed_sizes_.has(granules);
  const std::uint32_t start = comes_and_goes
                                  ? align_down(place.start + (place.granules - granules), alignment)
                                  : align_up(place.start, alignment);
  const BlockIndex index = cut(bins_, hole, start, granules);
  blocks_[index].nature = comes_and_goes ? Block::kComesAndGoes : Block::kStays;
  return hand_out(index, bytes);
}

// Cuts a block out of a filed hole and returns its record, whose state is for the caller to set.
// What remains of the hole keeps the hole's record and, mostly, its place in the bins.
inline BlockIndex Regions::cut(Bins& bins, BlockIndex hole_index, std::uint32_t start,
                               std::uint32_t granules) {
  Block& hole = blocks_[hole_index];
  const std::uint32_t before = start - hole.start;
  const std::uint32_t behind = hole.granules - before - granules;
  if (before == 0 && behind == 0) {
    bins.remove(blocks_, hole_index);
    return hole_index;
  }
  const BlockIndex index = blocks_.acquire();
  Block& block = blocks_[index];
  block.start = start;
  block.granules = granules;
  block.region = hole.region;
  if (before == 0) {
    link_between(hole.previous, index, hole_index);
    hole.start = start + granules;
    hole.granules = behind;
  } else {
    link_between(hole_index, index, hole.next);
    hole.granules = before;
  }
  bins.update(blocks_, hole_index);
  if (before > 0 && behind > 0) [[unlikely]] {
    add_rest(bins, index, behind, hole.state);
  }
  return index;
}

// Makes the block live, and enters it in the address table.
inline Regions::Placed Regions::hand_out(BlockIndex index, std::uint64_t bytes) {
  Block& block = blocks_[index];
  const Region& region = regions_[block.region];
  const Address address = region.base + block.start * kGranuleBytes;
  block.state = BlockState::kLive;
  block.use.padding = static_cast<std::uint32_t>(block.granules * kGranuleBytes - bytes);
  region.landmarks_[stretch_of(block.start)] = index;
  table_.insert(address, index);
  return {index, address};
}

inline void Regions::reclaim(BlockIndex index) {
  if (blocks_[index].nature != Block::kComesAndGoes) [[unlikely]] {
    reclaim_unlike_most(index);
    return;
  }
  coalesce(bins_, index, BlockState::kFree);
}

// Gives the block the state, and merges it with each neighbour of that state. The neighbour keeps
// its record, and the block's record is released.
inline void Regions::coalesce(Bins& bins, BlockIndex index, BlockState state) {
  Block& block = blocks_[index];
  const BlockIndex next_index = block.next;
  Block& previous = blocks_[block.previous];
  Block& next = blocks_[next_index];
  if (previous.state == state) {
    previous.granules += block.granules;
    if (next.state == state) {
      previous.granules += next.granules;
      bins.remove(blocks_, next_index);
      unlink(next);
      blocks_.release(next_index);
    }
    unlink(block);
    bins.update(blocks_, block.previous);
    blocks_.release(index);
  } else if (next.state == state) {
    unlink(block);
    next.start = block.start;
    next.granules += block.granules;
    bins.update(blocks_, next_index);
    blocks_.release(index);
  } else {
    block.state = state;
    bins.insert(blocks_, index);
  }
}

}  // namespace cubfc::arena
