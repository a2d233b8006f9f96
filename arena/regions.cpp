#include "arena/regions.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>

namespace cubfc::arena {
namespace {

std::atomic<std::uint64_t> regions_ever{0};

constexpr std::uint32_t kLandmarkGranules = (1U << 20) / kGranuleBytes;

}  // namespace

bool Regions::add(Address base, std::uint64_t bytes) {
  const Address first = round_up(base + kRegionLeadBytes, kPageBytes);
  const Address end = round_down(base + bytes, kGranuleBytes);
  if (end < first + kGranuleBytes ||
      (end - first) / kGranuleBytes > std::numeric_limits<std::uint32_t>::max()) {
    return false;
  }
  auto number = static_cast<std::size_t>(
      std::find_if(regions_.begin(), regions_.end(), [](const Region& r) { return !r.exists(); }) -
      regions_.begin());
  if (number > std::numeric_limits<std::uint16_t>::max()) {
    return false;
  }
  Region region;
  region.obtained_base = base;
  region.obtained_bytes = bytes;
  region.base = first;
  region.number = regions_ever.fetch_add(1, std::memory_order_relaxed) + 1;
  region.granules = static_cast<std::uint32_t>((end - first) / kGranuleBytes);
  region.landmarks_.resize((region.granules + kLandmarkGranules - 1) / kLandmarkGranules);
  region.marked_.resize((region.landmarks_.size() + 63) / 64);
  by_address_.reserve(by_address_.size() + 1);
  regions_.reserve(number + 1);
  blocks_.reserve(1);  // the last step that can throw

  const BlockIndex index = blocks_.acquire();
  region.first = index;
  Block& block = blocks_[index];
  block.start = 0;
  block.granules = region.granules;
  block.previous = kNoBlock;
  block.next = kNoBlock;
  block.region = static_cast<std::uint16_t>(number);
  block.state = BlockState::kFree;
  if (number == regions_.size()) {
    regions_.push_back(std::move(region));
  } else {
    regions_[number] = std::move(region);
  }
  const auto place = std::find_if(by_address_.begin(), by_address_.end(), [&](std::uint16_t other) {
    return regions_[other].base > first;
  });
  by_address_.insert(place, static_cast<std::uint16_t>(number));
  add_landmark(index);
  bins_.insert(index);
  return true;
}

std::vector<std::uint16_t> Regions::unused() const {
  std::vector<std::uint16_t> result;
  for (const std::uint16_t number : by_address_) {
    const Block& first = blocks_[regions_[number].first];
    if (first.state == BlockState::kFree && first.next == kNoBlock) {
      result.push_back(number);
    }
  }
  return result;
}

void Regions::remove(std::uint16_t region) {
  const BlockIndex only = regions_[region].first;
  bins_.remove(only);
  blocks_.release(only);
  by_address_.erase(std::find(by_address_.begin(), by_address_.end(), region));
  regions_[region] = Region{};
}

void Regions::clear() noexcept {
  blocks_.clear();
  bins_.clear();
  table_.clear();
  regions_.clear();
  by_address_.clear();
}

BlockIndex Regions::allocate(std::uint64_t bytes) {
  const auto granules = static_cast<std::uint32_t>(block_bytes_for(bytes) / kGranuleBytes);
  BlockIndex index = bins_.best_fit(granules);
  if (index == kNoBlock) {
    return kNoBlock;
  }
  blocks_.reserve(2);
  table_.reserve_one();  // from here on nothing throws

  bins_.remove(index);
  if (granules >= kGranulesPerPage) {
    const std::uint32_t start = blocks_[index].start;
    const auto lead = static_cast<std::uint32_t>(round_up(start, kGranulesPerPage)) - start;
    if (lead > 0) {
      const BlockIndex rest = split(index, lead);
      bins_.insert(index);
      index = rest;
    }
  }
  if (blocks_[index].granules > granules) {
    bins_.insert(split(index, granules));
  }
  Block& block = blocks_[index];
  block.state = BlockState::kLive;
  block.use = {static_cast<std::uint32_t>(block_bytes_for(bytes) - bytes), 0, 0};
  table_.insert(address_of(index), index);
  return index;
}

// Cuts a free block that is in no bin after `granules` and returns the rest, which is in no bin
// either.
BlockIndex Regions::split(BlockIndex index, std::uint32_t granules) {
  const BlockIndex rest_index = blocks_.acquire();
  Block& block = blocks_[index];
  Block& rest = blocks_[rest_index];
  rest.start = block.start + granules;
  rest.granules = block.granules - granules;
  rest.previous = index;
  rest.next = block.next;
  rest.region = block.region;
  rest.state = BlockState::kFree;
  if (block.next != kNoBlock) {
    blocks_[block.next].previous = rest_index;
  }
  block.next = rest_index;
  block.granules = granules;
  add_landmark(rest_index);
  return rest_index;
}

void Regions::retire(BlockIndex index) {
  table_.erase(address_of(index), index);
  blocks_[index].state = BlockState::kRetired;
}

void Regions::reclaim(BlockIndex index) {
  blocks_[index].state = BlockState::kFree;
  if (const BlockIndex next = blocks_[index].next; blocks_[next].state == BlockState::kFree) {
    bins_.remove(next);
    coalesce_with_next(index);
  }
  if (const BlockIndex previous = blocks_[index].previous;
      blocks_[previous].state == BlockState::kFree) {
    bins_.remove(previous);
    index = coalesce_with_next(previous);
  }
  bins_.insert(index);
}

// The block takes in its next neighbour; both are in no bin.
BlockIndex Regions::coalesce_with_next(BlockIndex index) {
  Block& block = blocks_[index];
  const BlockIndex absorbed = block.next;
  drop_landmark(absorbed);
  block.granules += blocks_[absorbed].granules;
  block.next = blocks_[absorbed].next;
  if (block.next != kNoBlock) {
    blocks_[block.next].previous = index;
  }
  blocks_.release(absorbed);
  return index;
}

BlockIndex Regions::find(Address address) const {
  return table_.find(address, [&](BlockIndex index) { return address_of(index) == address; });
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

BlockIndex Regions::find_containing(Address address) const {
  const Region* region = region_around(address);
  if (region == nullptr || address < region->base) {
    return kNoBlock;
  }
  const std::uint64_t granule = (address - region->base) / kGranuleBytes;
  if (granule >= region->granules) {
    return kNoBlock;
  }
  // The nearest landmark that does not lie behind the address. The first block is always one.
  std::uint64_t mib = granule / kLandmarkGranules;
  if (region->landmarks_[mib] == kNoBlock || blocks_[region->landmarks_[mib]].start > granule) {
    std::uint64_t word = mib / 64;
    std::uint64_t below = region->marked_[word] & ((std::uint64_t{1} << (mib % 64)) - 1);
    while (below == 0 && word > 0) {
      below = region->marked_[--word];
    }
    mib = below == 0 ? 0 : word * 64 + 63 - static_cast<std::uint64_t>(std::countl_zero(below));
  }
  BlockIndex index = region->landmarks_[mib];
  while (blocks_[index].start + std::uint64_t{blocks_[index].granules} <= granule) {
    index = blocks_[index].next;
  }
  return blocks_[index].state == BlockState::kLive ? index : kNoBlock;
}

void Regions::add_landmark(BlockIndex index) {
  const Block& block = blocks_[index];
  Region& region = regions_[block.region];
  const std::uint32_t mib = block.start / kLandmarkGranules;
  if (region.landmarks_[mib] == kNoBlock) {
    region.landmarks_[mib] = index;
    region.marked_[mib / 64] |= std::uint64_t{1} << (mib % 64);
  }
}

// Called while the block is still linked: a neighbour that starts in the same MiB takes over.
void Regions::drop_landmark(BlockIndex index) {
  const Block& block = blocks_[index];
  Region& region = regions_[block.region];
  const std::uint32_t mib = block.start / kLandmarkGranules;
  if (region.landmarks_[mib] != index) {
    return;
  }
  const auto starts_here = [&](BlockIndex other) {
    return other != kNoBlock && blocks_[other].start / kLandmarkGranules == mib;
  };
  const BlockIndex heir = starts_here(block.previous) ? block.previous
                          : starts_here(block.next)   ? block.next
                                                      : kNoBlock;
  region.landmarks_[mib] = heir;
  if (heir == kNoBlock) {
    region.marked_[mib / 64] &= ~(std::uint64_t{1} << (mib % 64));
  }
}

std::size_t Regions::host_bytes() const {
  std::size_t bytes = blocks_.host_bytes() + table_.host_bytes();
  for (const Region& region : regions_) {
    bytes += region.landmarks_.size() * sizeof(BlockIndex) + region.marked_.size() * 8;
  }
  return bytes;
}

std::string Regions::verify() const {
  std::string problems;
  std::uint64_t free_blocks = 0;
  std::uint64_t live_blocks = 0;
  for (const std::uint16_t number : by_address_) {
    verify_region(number, free_blocks, live_blocks, problems);
  }
  if (bins_.verify(problems) != free_blocks) {
    problems += "the bins do not hold exactly the free blocks\n";
  }
  if (table_.size() != live_blocks) {
    problems += "the address table does not hold exactly the live blocks\n";
  }
  return problems;
}

void Regions::verify_region(std::uint16_t number, std::uint64_t& free_blocks,
                            std::uint64_t& live_blocks, std::string& problems) const {
  const Region& region = regions_[number];
  const auto complain = [&](BlockIndex index, const char* what) {
    problems += "region " + std::to_string(number) + ", block " + std::to_string(index) + ": " +
                what + "\n";
  };
  std::vector<bool> starts(region.landmarks_.size());
  std::uint64_t expected_start = 0;
  BlockIndex previous = kNoBlock;
  for (BlockIndex index = region.first; index != kNoBlock; index = blocks_[index].next) {
    const Block& block = blocks_[index];
    if (block.start != expected_start || block.granules == 0 || block.previous != previous ||
        block.region != number) {
      complain(index, "it does not continue where the one before it ends");
      return;
    }
    starts[block.start / kLandmarkGranules] = true;
    if (block.state == BlockState::kFree) {
      ++free_blocks;
      if (blocks_[previous].state == BlockState::kFree) {
        complain(index, "two free blocks side by side");
      }
    } else if (block.granules >= kGranulesPerPage &&
               (block.start % kGranulesPerPage != 0 || block.granules % kGranulesPerPage != 0)) {
      complain(index, "a large block that is not aligned");
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
  if (expected_start != region.granules) {
    complain(previous, "the region's blocks do not end at its end");
  }
  for (std::size_t mib = 0; mib < starts.size(); ++mib) {
    const BlockIndex mark = region.landmarks_[mib];
    if (starts[mib] != (mark != kNoBlock) ||
        starts[mib] != (((region.marked_[mib / 64] >> (mib % 64)) & 1) != 0) ||
        (mark != kNoBlock && (blocks_[mark].start / kLandmarkGranules != mib ||
                              blocks_[mark].state == BlockState::kUnused))) {
      complain(mark, "a landmark is wrong");
    }
  }
}

}  // namespace cubfc::arena
