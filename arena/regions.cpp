#include "arena/regions.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>

namespace cubfc::arena {
namespace {

std::atomic<std::uint64_t> regions_ever{0};

// Between two landmarks.
constexpr std::uint32_t kStretchGranules = (4U << 20) / kGranuleBytes;

constexpr std::uint32_t stretch_of(const Block& block) {
  return block.start / kStretchGranules;
}

// The edge of a region starts nowhere: in a stretch that no block starts in.
constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kMostGranules = kNowhere / kStretchGranules * kStretchGranules;

}  // namespace

std::size_t Regions::Region::stretches() const {
  return (std::size_t{first} + granules + kStretchGranules - 1) / kStretchGranules;
}

inline void Regions::link_between(BlockIndex previous, BlockIndex index, BlockIndex next) {
  blocks_[index].previous = previous;
  blocks_[index].next = next;
  blocks_[previous].next = index;
  blocks_[next].previous = index;
}

// The neighbours of a block become each other's; the block still knows them.
inline void Regions::unlink(const Block& block) {
  blocks_[block.previous].next = block.next;
  blocks_[block.next].previous = block.previous;
}

inline BlockIndex& Regions::landmark_near(const Block& block) const {
  return regions_[block.region].landmarks_[stretch_of(block)];
}

inline void Regions::add_landmark(BlockIndex index, const Block& block) {
  BlockIndex& landmark = landmark_near(block);
  if (landmark == kNoBlock) {
    landmark = index;
    const std::uint32_t stretch = stretch_of(block);
    regions_[block.region].marked_[stretch / 64] |= std::uint64_t{1} << (stretch % 64);
  }
}

// `heir` starts where `block`, whose index is `index`, started.
inline void Regions::pass_landmark(BlockIndex index, BlockIndex heir, const Block& block) {
  if (BlockIndex& landmark = landmark_near(block); landmark == index) {
    landmark = heir;
  }
}

// A block that starts in the stretch no more; a neighbour takes over.
inline void Regions::drop_landmark(BlockIndex index, const Block& block) {
  BlockIndex& landmark = landmark_near(block);
  if (landmark != index) {
    return;
  }
  const std::uint32_t stretch = stretch_of(block);
  landmark = stretch_of(blocks_[block.previous]) == stretch ? block.previous
             : stretch_of(blocks_[block.next]) == stretch   ? block.next
                                                            : kNoBlock;
  if (landmark == kNoBlock) {
    regions_[block.region].marked_[stretch / 64] &= ~(std::uint64_t{1} << (stretch % 64));
  }
}

bool Regions::add(Address base, std::uint64_t bytes, Kind kind) {
  const bool own = kind == Kind::kOwn;
  const Address first = own ? base : round_up(base + kRegionLeadBytes, kPageBytes);
  const Address end = round_down(base + bytes, kGranuleBytes);
  const Address origin = own ? base : round_down(base, kPageBytes);
  if (end < first + kGranuleBytes || (end - origin) / kGranuleBytes > kMostGranules) {
    return false;
  }
  Region region;
  region.obtained_base = base;
  region.obtained_bytes = bytes;
  region.base = origin;
  region.first = static_cast<std::uint32_t>((first - origin) / kGranuleBytes);
  region.granules = static_cast<std::uint32_t>((end - first) / kGranuleBytes);
  region.own = own;
  return add(std::move(region), BlockState::kFree);
}

bool Regions::add_vacant(Address base, std::uint64_t bytes) {
  if (bytes / kGranuleBytes > kMostGranules) {
    return false;
  }
  Region region;
  region.obtained_base = base;
  region.obtained_bytes = bytes;
  region.base = base;
  region.granules = static_cast<std::uint32_t>(bytes / kGranuleBytes);
  return add(std::move(region), BlockState::kVacant);
}

// As one block of that state.
bool Regions::add(Region region, BlockState state) {
  const Address base = region.obtained_base;
  auto number = static_cast<std::size_t>(
      std::find_if(regions_.begin(), regions_.end(), [](const Region& r) { return !r.exists(); }) -
      regions_.begin());
  if (number > std::numeric_limits<std::uint16_t>::max()) {
    return false;
  }
  Bins& bins = state == BlockState::kFree ? bins_of(region) : vacancies_;
  region.number = regions_ever.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::size_t stretches = region.stretches();
  region.landmarks_ = std::make_unique<BlockIndex[]>(stretches);
  region.marked_ = std::make_unique<std::uint64_t[]>((stretches + 63) / 64);
  by_address_.reserve(by_address_.size() + 1);
  map_draft_.reserve(by_address_.size() + 1);
  map_.reserve(by_address_.size() + 1);
  regions_.reserve(number + 1);
  blocks_.reserve(2);  // the last step that can throw

  region.edge = blocks_.acquire();
  const BlockIndex index = blocks_.acquire();
  Block& edge = blocks_[region.edge];
  edge.start = kNowhere;
  edge.granules = 0;
  edge.region = static_cast<std::uint16_t>(number);
  edge.state = BlockState::kEdge;
  Block& block = blocks_[index];
  block.start = region.first;
  block.granules = region.granules;
  block.region = static_cast<std::uint16_t>(number);
  block.state = state;
  link_between(region.edge, index, region.edge);
  if (number == regions_.size()) {
    regions_.push_back(std::move(region));
  } else {
    regions_[number] = std::move(region);
  }
  const auto place = std::find_if(by_address_.begin(), by_address_.end(), [&](std::uint16_t other) {
    return regions_[other].obtained_base > base;
  });
  by_address_.insert(place, static_cast<std::uint16_t>(number));
  publish_map();
  add_landmark(index, block);
  bins.insert(index, block);
  return true;
}

bool Regions::is_unused(std::uint16_t region) const {
  const BlockIndex edge = regions_[region].edge;
  const Block& first = blocks_[blocks_[edge].next];
  return first.state == BlockState::kFree && first.next == edge;
}

void Regions::remove(std::uint16_t region) noexcept {
  const BlockIndex edge = regions_[region].edge;
  const BlockIndex only = blocks_[edge].next;
  bins_of(regions_[region]).remove(blocks_[only]);
  blocks_.release(only);
  blocks_.release(edge);
  by_address_.erase(std::find(by_address_.begin(), by_address_.end(), region));
  regions_[region] = Region{};
  publish_map();
}

void Regions::clear() noexcept {
  blocks_.clear();
  bins_.clear();
  own_holes_.clear();
  vacancies_.clear();
  table_.clear();
  freed_sizes_.clear();
  regions_.clear();
  by_address_.clear();
  publish_map();
}

void Regions::publish_map() noexcept {
  map_draft_.clear();
  for (const std::uint16_t number : by_address_) {
    const Region& region = regions_[number];
    map_draft_.push_back({region.obtained_base, region.end(), region.number});
  }
  map_.assign(map_draft_);
}

// Cuts a block out of a filed hole and returns its record, whose state is for the caller to set.
// What remains of the hole keeps the hole's record and, mostly, its place in the bins.
inline BlockIndex Regions::cut(Bins& bins, BlockIndex hole_index, std::uint32_t start,
                               std::uint32_t granules) {
  Block& hole = blocks_[hole_index];
  const std::uint32_t before = start - hole.start;
  const std::uint32_t behind = hole.granules - before - granules;
  if (before == 0 && behind == 0) {
    bins.remove(hole);
    return hole_index;
  }
  const BlockIndex index = blocks_.acquire();
  Block& block = blocks_[index];
  block.start = start;
  block.granules = granules;
  block.region = hole.region;
  if (before == 0) {
    link_between(hole.previous, index, hole_index);
    pass_landmark(hole_index, index, hole);
    hole.start = start + granules;
    hole.granules = behind;
    add_landmark(hole_index, hole);
    bins.update(hole_index, hole);
    return index;
  }
  link_between(hole_index, index, hole.next);
  hole.granules = before;
  add_landmark(index, block);
  bins.update(hole_index, hole);
  if (behind > 0) {
    const BlockIndex rest_index = blocks_.acquire();
    Block& rest = blocks_[rest_index];
    rest.start = start + granules;
    rest.granules = behind;
    rest.region = block.region;
    rest.state = hole.state;
    link_between(index, rest_index, block.next);
    add_landmark(rest_index, rest);
    bins.insert(rest_index, rest);
  }
  return index;
}

BlockIndex Regions::allocate(std::uint64_t bytes, Search search) {
  const std::uint64_t block_bytes = block_bytes_for(bytes);
  const auto granules = static_cast<std::uint32_t>(block_bytes / kGranuleBytes);
  const auto alignment = static_cast<std::uint32_t>(alignment_for(block_bytes) / kGranuleBytes);
  const BlockIndex hole = bins_.find({granules, alignment}, search);
  if (hole == kNoBlock) {
    return kNoBlock;
  }
  blocks_.reserve(2);
  table_.reserve_one();  // from here on nothing throws

  // Blocks that stay gather at one end of a hole, blocks that come and go at the other. A size that
  // has been freed before is taken for one of those.
  const Block& place = blocks_[hole];
  const std::uint64_t start = freed_sizes_.has(granules)
                                  ? align_down(place.end() - granules, alignment)
                                  : align_up(place.start, alignment);
  return hand_out(cut(bins_, hole, static_cast<std::uint32_t>(start), granules), bytes);
}

// The block is live now, and found.
inline BlockIndex Regions::hand_out(BlockIndex index, std::uint64_t bytes) {
  Block& block = blocks_[index];
  block.state = BlockState::kLive;
  block.use.padding = static_cast<std::uint32_t>(bytes_of(index) - bytes);
  table_.insert(address_of(block), index);
  return index;
}

BlockIndex Regions::allocate_own(std::uint64_t bytes) {
  constexpr std::uint32_t kMostLeftOver = (1U << 30) / kGranuleBytes;  // padding is 32 bits
  const auto granules = static_cast<std::uint32_t>(round_up(bytes, kGranuleBytes) / kGranuleBytes);
  const BlockIndex hole = own_holes_.find({granules, 1}, Search::kBounded);
  if (hole == kNoBlock ||
      blocks_[hole].granules - granules > std::min(granules / 8, kMostLeftOver)) {
    return kNoBlock;
  }
  table_.reserve_one();
  own_holes_.remove(blocks_[hole]);
  return hand_out(hole, bytes);
}

std::uint64_t Regions::make_slice_of_own(std::uint64_t block_bytes) {
  const auto granules = static_cast<std::uint32_t>(slice_bytes_for(block_bytes) / kGranuleBytes);
  const BlockIndex hole = own_holes_.find({granules, 1}, Search::kEverywhere);
  if (hole == kNoBlock) {
    return 0;
  }
  Block& block = blocks_[hole];
  Region& region = regions_[block.region];
  own_holes_.remove(block);
  const std::uint64_t lost = round_up(region.base + kRegionLeadBytes, kPageBytes) - region.base;
  region.first = static_cast<std::uint32_t>(lost / kGranuleBytes);
  region.granules -= region.first;
  region.own = false;
  block.start = region.first;
  block.granules = region.granules;
  bins_.insert(hole, block);
  return lost;
}

void Regions::revive(BlockIndex index, std::uint64_t bytes) {
  table_.reserve_one();
  hand_out(index, bytes);
}

void Regions::reclaim(BlockIndex index) {
  freed_sizes_.add(blocks_[index].granules);
  coalesce(bins_of(regions_[blocks_[index].region]), index, BlockState::kFree);
}

// A neighbour of that state takes the block in and keeps its own record.
inline void Regions::coalesce(Bins& bins, BlockIndex index, BlockState state) {
  Block& block = blocks_[index];
  const BlockIndex next_index = block.next;
  Block& previous = blocks_[block.previous];
  Block& next = blocks_[next_index];
  if (previous.state == state) {
    unlink(block);
    drop_landmark(index, block);
    previous.granules += block.granules;
    if (next.state == state) {
      bins.remove(next);
      unlink(next);
      drop_landmark(next_index, next);
      previous.granules += next.granules;
      blocks_.release(next_index);
    }
    bins.update(block.previous, previous);
    blocks_.release(index);
  } else if (next.state == state) {
    unlink(block);
    if (stretch_of(next) != stretch_of(block)) {
      drop_landmark(next_index, next);
    }
    pass_landmark(index, next_index, block);
    next.start = block.start;
    next.granules += block.granules;
    bins.update(next_index, next);
    blocks_.release(index);
  } else {
    block.state = state;
    bins.insert(index, block);
  }
}

Regions::Place Regions::place_for(std::uint64_t block_bytes, std::uint32_t page_granules) const {
  const std::uint64_t granules = block_bytes / kGranuleBytes;
  const std::uint64_t alignment = alignment_for(block_bytes) / kGranuleBytes;
  Place best;
  vacancies_.for_each_from(page_granules, [&](BlockIndex index) {
    const Block& vacancy = blocks_[index];
    const Block& before = blocks_[vacancy.previous];
    const Block& behind = blocks_[vacancy.next];
    const std::uint64_t start =
        align_up(before.state == BlockState::kFree ? before.start : vacancy.start, alignment);
    const std::uint64_t end = start + granules;
    std::uint64_t needed =
        round_up(std::max<std::uint64_t>(end, vacancy.start + 1) - vacancy.start, page_granules);
    if (needed > vacancy.granules) {
      if (behind.state != BlockState::kFree || end > behind.end()) {
        return;
      }
      needed = vacancy.granules;
    }
    const bool better = best.vacancy == kNoBlock || needed < best.granules ||
                        (needed == best.granules && address_of(vacancy) < address_of(best.vacancy));
    if (better) {
      best = {index, static_cast<std::uint32_t>(needed), end};
    }
  });
  return best;
}

BlockIndex Regions::take_out(BlockIndex index, std::uint32_t start, std::uint32_t granules) {
  Bins& bins = blocks_[index].state == BlockState::kFree ? bins_ : vacancies_;
  const BlockIndex taken = cut(bins, index, start, granules);
  blocks_[taken].state = BlockState::kMoving;
  return taken;
}

void Regions::settle(BlockIndex index, BlockState state) {
  coalesce(state == BlockState::kFree ? bins_ : vacancies_, index, state);
}

const Regions::Region* Regions::region_around(Address address) const {
  auto after = std::upper_bound(
      by_address_.begin(), by_address_.end(), address,
      [&](Address value, std::uint16_t number) { return value < regions_[number].obtained_base; });
  if (after == by_address_.begin()) {
    return nullptr;
  }
  const Region& region = regions_[*--after];
  return address < region.end() ? &region : nullptr;
}

// Mostly it is a block's start, or close behind one; else the block is found from a landmark, by
// way of the blocks in between.
BlockIndex Regions::find_containing(Address address) const {
  constexpr Address kClose = 64 * kGranuleBytes;
  const Address granule_start = round_down(address, kGranuleBytes);
  for (Address start = granule_start; start <= granule_start && granule_start - start < kClose;
       start -= kGranuleBytes) {
    if (const BlockIndex index = find(start); index != kNoBlock) {
      return address - start < bytes_of(index) ? index : kNoBlock;
    }
  }
  const BlockIndex index = find_covering(address);
  return index != kNoBlock && blocks_[index].state == BlockState::kLive ? index : kNoBlock;
}

BlockIndex Regions::find_live_from(Address address) const {
  BlockIndex index = find_covering(address);
  if (index == kNoBlock) {
    return kNoBlock;
  }
  while (blocks_[index].state != BlockState::kLive && blocks_[index].state != BlockState::kEdge) {
    index = blocks_[index].next;
  }
  return blocks_[index].state == BlockState::kLive ? index : kNoBlock;
}

// Whatever is there, free or not.
BlockIndex Regions::find_covering(Address address) const {
  const Region* region = region_around(address);
  if (region == nullptr) {
    return kNoBlock;
  }
  const std::uint64_t granule = (address - region->base) / kGranuleBytes;
  if (granule < region->first || granule - region->first >= region->granules) {
    return kNoBlock;
  }
  // The nearest landmark that does not lie behind the address. The first block's stretch has one.
  std::uint64_t stretch = granule / kStretchGranules;
  if (const BlockIndex near = region->landmarks_[stretch];
      near == kNoBlock || blocks_[near].start > granule) {
    std::uint64_t word = stretch / 64;
    std::uint64_t below = region->marked_[word] & ((std::uint64_t{1} << (stretch % 64)) - 1);
    while (below == 0 && word > 0) {
      below = region->marked_[--word];
    }
    stretch = below == 0 ? 0 : word * 64 + 63 - static_cast<std::uint64_t>(std::countl_zero(below));
  }
  BlockIndex index = region->landmarks_[stretch];
  while (blocks_[index].start > granule) {
    index = blocks_[index].previous;
  }
  while (blocks_[index].end() <= granule) {
    index = blocks_[index].next;
  }
  return index;
}

std::size_t Regions::host_bytes() const {
  std::size_t bytes = blocks_.host_bytes() + table_.host_bytes() + map_.host_bytes();
  for (const Region& region : regions_) {
    const std::size_t stretches = region.stretches();
    bytes += stretches * sizeof(BlockIndex) + (stretches + 63) / 64 * sizeof(std::uint64_t);
  }
  return bytes;
}

std::string Regions::verify() const {
  std::string problems;
  std::uint64_t free_blocks = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t vacancies = 0;
  for (const std::uint16_t number : by_address_) {
    verify_region(number, free_blocks, live_blocks, vacancies, problems);
  }
  if (vacancies_.verify(problems) != vacancies) {
    problems += "the vacancies' bins do not hold exactly the vacant blocks\n";
  }
  if (bins_.verify(problems) + own_holes_.verify(problems) != free_blocks) {
    problems += "the bins do not hold exactly the free blocks\n";
  }
  if (table_.size() != live_blocks) {
    problems += "the address table does not hold exactly the live blocks\n";
  }
  return problems;
}

void Regions::verify_region(std::uint16_t number, std::uint64_t& free_blocks,
                            std::uint64_t& live_blocks, std::uint64_t& vacancies,
                            std::string& problems) const {
  const Region& region = regions_[number];
  const auto complain = [&](BlockIndex index, const char* what) {
    problems += "region " + std::to_string(number) + ", block " + std::to_string(index) + ": " +
                what + "\n";
  };
  std::vector<bool> starts(region.stretches());
  std::uint64_t expected_start = region.first;
  BlockIndex previous = region.edge;
  for (BlockIndex index = blocks_[region.edge].next; index != region.edge;
       index = blocks_[index].next) {
    const Block& block = blocks_[index];
    if (block.start != expected_start || block.granules == 0 || block.previous != previous ||
        block.region != number) {
      complain(index, "it does not continue where the one before it ends");
      return;
    }
    starts[stretch_of(block)] = true;
    if (block.state == BlockState::kFree) {
      ++free_blocks;
      if (blocks_[previous].state == BlockState::kFree) {
        complain(index, "two free blocks side by side");
      }
    } else if (block.state == BlockState::kMoving) {
      complain(index, "left between free and vacant");
    } else if (block.state == BlockState::kVacant) {
      ++vacancies;
      if (blocks_[previous].state == BlockState::kVacant) {
        complain(index, "two vacant blocks side by side");
      }
    } else if (region.own ? block.granules != region.granules
                          : block.start % (alignment_for(bytes_of(index)) / kGranuleBytes) != 0 ||
                                (block.granules >= kLargeGranules &&
                                 block.granules % kGranulesPerPage != 0)) {
      complain(index, "a block that is not aligned");
    }
    if (block.state == BlockState::kLive) {
      ++live_blocks;
      if (find(address_of(index)) != index) {
        complain(index, "live, but not found by its address");
      }
    }
    expected_start += block.granules;
    previous = index;
  }
  if (expected_start != region.first + region.granules ||
      blocks_[region.edge].previous != previous) {
    complain(previous, "the region's blocks do not end at its end");
  }
  for (std::size_t stretch = 0; stretch < starts.size(); ++stretch) {
    const BlockIndex mark = region.landmarks_[stretch];
    if (starts[stretch] != (mark != kNoBlock) ||
        starts[stretch] != (((region.marked_[stretch / 64] >> (stretch % 64)) & 1) != 0) ||
        (mark != kNoBlock &&
         (stretch_of(blocks_[mark]) != stretch || blocks_[mark].state == BlockState::kUnused))) {
      complain(mark, "a landmark is wrong");
    }
  }
}

}  // namespace cubfc::arena
