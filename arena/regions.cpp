#include "arena/regions.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>

namespace cubfc::arena {
namespace {

std::atomic<std::uint64_t> regions_ever{0};

}  // namespace

std::size_t Region::stretches() const {
  return (std::size_t{first} + granules + kStretchGranules - 1) / kStretchGranules;
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

// Adds the region, covered by one block of that state.
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
  bins.insert(blocks_, index);
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
  bins_of(regions_[region]).remove(blocks_, only);
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

// Called when the block `behind` was cut out of the middle of a hole: makes a free or vacant block
// of the hole's part that follows `behind`.
void Regions::add_rest(Bins& bins, BlockIndex behind, std::uint32_t granules, BlockState state) {
  const BlockIndex index = blocks_.acquire();
  const Block& block = blocks_[behind];
  Block& rest = blocks_[index];
  rest.start = static_cast<std::uint32_t>(block.end());
  rest.granules = granules;
  rest.region = block.region;
  rest.state = state;
  link_between(behind, index, block.next);
  bins.insert(blocks_, index);
}

// Reclaims a block whose size had never been freed when it was handed out, or one with a region of
// its own.
void Regions::reclaim_unlike_most(BlockIndex index) {
  const Block& block = blocks_[index];
  freed_sizes_.add(block.granules);
  coalesce(block.nature == Block::kOwnRegion ? own_holes_ : bins_, index, BlockState::kFree);
}

Regions::Placed Regions::allocate_own(std::uint64_t bytes) {
  constexpr std::uint32_t kMostLeftOver = (1U << 30) / kGranuleBytes;  // padding is 32 bits
  const auto granules = static_cast<std::uint32_t>(round_up(bytes, kGranuleBytes) / kGranuleBytes);
  const BlockIndex hole = own_holes_.find(blocks_, {granules, 1}, Search::kBounded);
  if (hole == kNoBlock ||
      blocks_[hole].granules - granules > std::min(granules / 8, kMostLeftOver)) {
    return {};
  }
  table_.reserve_one();
  own_holes_.remove(blocks_, hole);
  blocks_[hole].nature = Block::kOwnRegion;
  return hand_out(hole, bytes);
}

std::uint64_t Regions::make_slice_of_own(std::uint64_t block_bytes) {
  const auto granules = static_cast<std::uint32_t>(slice_bytes_for(block_bytes) / kGranuleBytes);
  const BlockIndex hole = own_holes_.find(blocks_, {granules, 1}, Search::kEverywhere);
  if (hole == kNoBlock) {
    return 0;
  }
  Block& block = blocks_[hole];
  Region& region = regions_[block.region];
  own_holes_.remove(blocks_, hole);
  const std::uint64_t lost = round_up(region.base + kRegionLeadBytes, kPageBytes) - region.base;
  region.first = static_cast<std::uint32_t>(lost / kGranuleBytes);
  region.granules -= region.first;
  region.own = false;
  block.start = region.first;
  block.granules = region.granules;
  bins_.insert(blocks_, hole);
  return lost;
}

Regions::Placed Regions::revive(BlockIndex index, std::uint64_t bytes) {
  table_.reserve_one();
  return hand_out(index, bytes);
}

Regions::Place Regions::place_for(std::uint64_t block_bytes, std::uint32_t page_granules) const {
  const std::uint64_t granules = block_bytes / kGranuleBytes;
  const std::uint64_t alignment = alignment_for(block_bytes) / kGranuleBytes;
  Place best;
  vacancies_.for_each_from(blocks_, page_granules, [&](BlockIndex index) {
    const Block& vacancy = blocks_[index];
    const Block& before = blocks_[vacancy.previous];
    const Block& behind = blocks_[vacancy.next];
    const std::uint64_t start = align_up<std::uint64_t>(
        before.state == BlockState::kFree ? before.start : vacancy.start, alignment);
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

// Mostly `address` is a block's start, or close behind one. So the address table is asked for the
// starts of 64 granules: that of the granule with `address`, and those below it. If none of them is
// a live block's start, the search goes on from a landmark, block by block.
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

// The block of any state that covers `address`; kNoBlock if none does.
BlockIndex Regions::find_covering(Address address) const {
  const Region* region = region_around(address);
  if (region == nullptr) {
    return kNoBlock;
  }
  const std::uint64_t granule = (address - region->base) / kGranuleBytes;
  if (granule < region->first || granule - region->first >= region->granules) {
    return kNoBlock;
  }
  // Start at the nearest landmark in front of the granule, or at the region's first block.
  const auto number = static_cast<std::uint16_t>(region - regions_.data());
  const std::uint64_t stretch = granule / kStretchGranules;
  BlockIndex index = kNoBlock;
  for (std::uint64_t from = stretch + 1; from > 0 && index == kNoBlock; --from) {
    const BlockIndex mark = region->landmarks_[from - 1];
    const Block& block = blocks_[mark];
    const bool is_good = mark != kNoBlock && block.state != BlockState::kUnused &&
                         block.region == number && block.start <= granule &&
                         (stretch_of(block.start) == from - 1 || granule < block.end());
    index = is_good ? mark : kNoBlock;
  }
  index = index == kNoBlock ? blocks_[region->edge].next : index;
  while (blocks_[index].end() <= granule) {
    index = blocks_[index].next;
  }
  region->landmarks_[stretch] = index;  // for the next search
  return index;
}

std::size_t Regions::host_bytes() const {
  std::size_t bytes = blocks_.host_bytes() + table_.host_bytes() + map_.host_bytes();
  for (const Region& region : regions_) {
    const std::size_t stretches = region.stretches();
    bytes += stretches * sizeof(BlockIndex);
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
  if (vacancies_.verify(blocks_, problems) != vacancies) {
    problems += "the vacancies' bins do not hold exactly the vacant blocks\n";
  }
  if (bins_.verify(blocks_, problems) + own_holes_.verify(blocks_, problems) != free_blocks) {
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
}

}  // namespace cubfc::arena
