#include "arena/bins.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace cubfc::arena {

std::uint32_t Bins::class_of_pages(std::uint32_t pages) {
  if (pages < kExactPages) {
    return kFirstPageClass + pages;
  }
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(pages)) - 1;  // >= 6
  const std::uint32_t step = (pages >> (exponent - 5)) - kSteps;
  return kFirstPageClass + kExactPages + (exponent - 6) * kSteps + step;
}

std::uint32_t Bins::class_of(const Block& block) {
  const std::uint32_t pages = aligned_pages(block.start, block.granules);
  return pages > 0 ? class_of_pages(pages) : block.granules;
}

std::uint32_t Bins::pages_of(BlockIndex index) const {
  return aligned_pages(blocks_[index].start, blocks_[index].granules);
}

void Bins::insert(BlockIndex index) {
  Block& block = blocks_[index];
  const std::uint32_t size_class = class_of(block);
  BlockIndex& head = heads_[size_class];
  block.hole = {size_class, head, kNoBlock};
  if (head != kNoBlock) {
    blocks_[head].hole.previous = index;
  } else {
    bitmap_[size_class / 64] |= std::uint64_t{1} << (size_class % 64);
    summary_ |= std::uint64_t{1} << (size_class / 64);
  }
  head = index;
}

void Bins::remove(BlockIndex index) {
  const Block::Hole hole = blocks_[index].hole;
  if (hole.next != kNoBlock) {
    blocks_[hole.next].hole.previous = hole.previous;
  }
  if (hole.previous != kNoBlock) {
    blocks_[hole.previous].hole.next = hole.next;
    return;
  }
  heads_[hole.size_class] = hole.next;
  if (hole.next == kNoBlock) {
    std::uint64_t& word = bitmap_[hole.size_class / 64];
    word &= ~(std::uint64_t{1} << (hole.size_class % 64));
    if (word == 0) {
      summary_ &= ~(std::uint64_t{1} << (hole.size_class / 64));
    }
  }
}

BlockIndex Bins::best_fit(std::uint32_t granules) const {
  if (granules < kGranulesPerPage) {
    return first_from_class(granules);
  }
  const std::uint32_t pages = granules / kGranulesPerPage;
  const std::uint32_t own_class = class_of_pages(pages);
  if (pages < kExactPages) {
    return first_from_class(own_class);
  }
  if (const BlockIndex hole = best_in_class(own_class, pages, kLookAt); hole != kNoBlock) {
    return hole;
  }
  if (const BlockIndex hole = first_from_class(own_class + 1); hole != kNoBlock) {
    return hole;
  }
  return best_in_class(own_class, pages, std::numeric_limits<std::uint32_t>::max());
}

// The hole last filed in the first non-empty class from size_class on.
BlockIndex Bins::first_from_class(std::uint32_t size_class) const {
  std::uint32_t word = size_class / 64;
  if (word >= kWords) {
    return kNoBlock;
  }
  std::uint64_t candidates = bitmap_[word] & (~std::uint64_t{0} << (size_class % 64));
  if (candidates == 0) {
    const std::uint64_t above = summary_ & (~std::uint64_t{1} << word);
    if (above == 0) {
      return kNoBlock;
    }
    word = static_cast<std::uint32_t>(std::countr_zero(above));
    candidates = bitmap_[word];
  }
  return heads_[word * 64 + static_cast<std::uint32_t>(std::countr_zero(candidates))];
}

BlockIndex Bins::best_in_class(std::uint32_t size_class, std::uint32_t pages,
                               std::uint32_t look_at) const {
  BlockIndex best = kNoBlock;
  std::uint32_t best_pages = std::numeric_limits<std::uint32_t>::max();
  for (BlockIndex index = heads_[size_class]; index != kNoBlock && look_at > 0;
       index = blocks_[index].hole.next, --look_at) {
    const std::uint32_t here = pages_of(index);
    if (here >= pages && here < best_pages) {
      best = index;
      best_pages = here;
      if (here == pages) {
        break;
      }
    }
  }
  return best;
}

std::uint64_t Bins::largest_fit_bytes() const {
  if (summary_ == 0) {
    return 0;
  }
  const auto word = static_cast<std::uint32_t>(63 - std::countl_zero(summary_));
  const std::uint32_t size_class =
      word * 64 + static_cast<std::uint32_t>(63 - std::countl_zero(bitmap_[word]));
  if (size_class < kFirstPageClass) {
    // A request of 64 KiB or more needs an aligned page, and no hole has one.
    return std::uint64_t{std::min(size_class, kGranulesPerPage - 1)} * kGranuleBytes;
  }
  std::uint32_t pages = 0;
  std::uint32_t look_at = kLookAt;
  for (BlockIndex index = heads_[size_class]; index != kNoBlock && look_at > 0;
       index = blocks_[index].hole.next, --look_at) {
    pages = std::max(pages, pages_of(index));
  }
  return pages * kPageBytes;
}

std::uint64_t Bins::verify(std::string& problems) const {
  std::uint64_t holes = 0;
  for (std::uint32_t size_class = 0; size_class < kClasses; ++size_class) {
    const bool marked = ((bitmap_[size_class / 64] >> (size_class % 64)) & 1) != 0;
    if (marked != (heads_[size_class] != kNoBlock)) {
      problems += "class " + std::to_string(size_class) + ": its bit and its list disagree\n";
    }
    BlockIndex previous = kNoBlock;
    for (BlockIndex index = heads_[size_class]; index != kNoBlock;
         index = blocks_[index].hole.next) {
      const Block& block = blocks_[index];
      if (block.state != BlockState::kFree || class_of(block) != size_class ||
          block.hole.size_class != size_class || block.hole.previous != previous) {
        problems += "block " + std::to_string(index) + " is filed in the wrong place\n";
        return holes;
      }
      previous = index;
      ++holes;
    }
  }
  for (std::uint32_t word = 0; word < kWords; ++word) {
    if (((summary_ >> word) & 1) != (bitmap_[word] != 0 ? 1U : 0U)) {
      problems += "summary bit " + std::to_string(word) + " is wrong\n";
    }
  }
  return holes;
}

}  // namespace cubfc::arena
