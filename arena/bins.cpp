#include "arena/bins.h"

#include <algorithm>
#include <limits>

namespace cubfc::arena {
namespace {

// The most holes that a bounded search looks at. Looking at one takes some nanoseconds, growing the
// arena many microseconds.
constexpr std::uint32_t kLookAt = 1024;

}  // namespace

// The smallest hole that fits, of the first class from `from` on in which one fits; kNoBlock if
// none fits. Looks at as many holes as `search` allows.
BlockIndex Bins::best_of_classes(const BlockSlab& blocks, std::uint32_t from,
                                 const Request& request, Search search) const {
  std::uint32_t left =
      search == Search::kBounded ? kLookAt : std::numeric_limits<std::uint32_t>::max();
  BlockIndex best = kNoBlock;
  for (BlockIndex first = first_from_class(from); first != kNoBlock && best == kNoBlock && left > 0;
       first = first_from_class(blocks[first].hole.size_class + 1)) {
    for (BlockIndex index = first; index != kNoBlock && left > 0;
         index = blocks[index].hole.next, --left) {
      if (fits(blocks[index], request) &&
          (best == kNoBlock || blocks[index].granules < blocks[best].granules)) {
        best = index;
      }
    }
  }
  return best;
}

std::uint64_t Bins::largest_fit_bytes(const BlockSlab& blocks) const {
  if (summary_ == 0) {
    return 0;
  }
  const auto word = static_cast<std::uint32_t>(63 - std::countl_zero(summary_));
  const std::uint32_t size_class =
      word * 64 + static_cast<std::uint32_t>(63 - std::countl_zero(bitmap_[word]));
  std::uint64_t granules = 0;
  std::uint32_t left = kLookAt;
  for (BlockIndex index = heads_[size_class]; index != kNoBlock && left > 0;
       index = blocks[index].hole.next, --left) {
    const Block& hole = blocks[index];
    const std::uint64_t aligned_start = round_up(hole.start, kGranulesPerPage);
    const std::uint64_t aligned_end = round_down(hole.end(), kGranulesPerPage);
    const std::uint64_t aligned = aligned_end - std::min(aligned_start, aligned_end);
    // A request for an odd number of granules needs no alignment beyond a granule. One for an odd
    // number of pages needs none beyond a page. So the largest odd number is sure to fit.
    const std::uint64_t small = (std::min(hole.granules, kLargeGranules - 1) - 1) | 1;
    const std::uint64_t large =
        aligned - (aligned / kGranulesPerPage % 2 == 0 ? kGranulesPerPage : 0);
    granules = std::max({granules, small, aligned > kLargeGranules ? large : 0});
  }
  return granules * kGranuleBytes;
}

void Bins::clear() noexcept {
  heads_.fill(kNoBlock);
  bitmap_.fill(0);
  summary_ = 0;
}

std::uint64_t Bins::verify(const BlockSlab& blocks, std::string& problems) const {
  std::uint64_t holes = 0;
  for (std::uint32_t size_class = 0; size_class < kClasses; ++size_class) {
    const bool marked = ((bitmap_[size_class / 64] >> (size_class % 64)) & 1) != 0;
    if (marked != (heads_[size_class] != kNoBlock)) {
      problems += "class " + std::to_string(size_class) + ": its bit and its list disagree\n";
    }
    BlockIndex previous = kNoBlock;
    for (BlockIndex index = heads_[size_class]; index != kNoBlock;
         index = blocks[index].hole.next) {
      const Block& block = blocks[index];
      if (block.state != state_ || class_of(block.granules) != size_class ||
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
