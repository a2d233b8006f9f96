// The free blocks of an arena by size, or its vacant blocks. Knows records and sizes; nothing of
// addresses beyond a block's own place, nothing of neighbours.
//
// Below 64 granules (32 KiB) each size has a class of its own; above, each power of two has 32
// classes, so that the sizes of a class differ by 3% at most. Each class has a list of its blocks.
// A bitmap marks the classes whose list is not empty. A summary word marks the words of the bitmap
// that are not 0. So the next larger class with a block is found by two count-trailing-zeros
// instructions.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "arena/block.h"
#include "arena/units.h"

namespace cubfc::arena {

// How many holes Bins::find() looks at when neither the newest hole of the request's own class nor
// that of any larger class fits.
enum class Search : std::uint8_t {
  kBounded,     // looks at 1,024 holes at most: the arena can still grow
  kEverywhere,  // looks at all holes: otherwise the request fails
};

// Each function is passed the slab with the records of all blocks in these bins.
class Bins {
 public:
  explicit Bins(BlockState state = BlockState::kFree) : state_(state) {}

  // What a request needs: `granules`, starting on a multiple of `alignment` (in granules, a power
  // of two).
  struct Request {
    std::uint32_t granules;
    std::uint32_t alignment;
  };

  static constexpr std::uint32_t class_of(std::uint32_t granules) {
    const auto bits = static_cast<std::uint32_t>(std::bit_width(granules | (2 * kSteps - 1)));
    const std::uint32_t shift = bits - kStepBits - 1;  // 0 where each size has a class of its own
    return shift * kSteps + (granules >> shift);
  }

  // Files a block. Its state must be the one that these bins are for.
  void insert(BlockSlab& blocks, BlockIndex index) {
    insert(blocks, index, class_of(blocks[index].granules));
  }

  void remove(BlockSlab& blocks, BlockIndex index) {
    const Block::Hole hole = blocks[index].hole;
    blocks[hole.next].hole.previous = hole.previous;  // kNoBlock's record may be written
    if (hole.previous != kNoBlock) {
      blocks[hole.previous].hole.next = hole.next;
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

  // Files a block anew after its size has changed. Mostly its class has not changed.
  void update(BlockSlab& blocks, BlockIndex index) {
    const std::uint32_t size_class = class_of(blocks[index].granules);
    if (size_class != blocks[index].hole.size_class) {
      remove(blocks, index);
      insert(blocks, index, size_class);
    }
  }

  // A hole that fits the request, or kNoBlock; the hole stays filed. Looks first at the newest hole
  // of the request's own class, then at the newest hole of each larger class. The first of these
  // that fits is returned; in a larger class, only alignment can make a hole too small. If none of
  // them fits, looks through the lists.
  BlockIndex find(const BlockSlab& blocks, const Request& request, Search search) const {
    const std::uint32_t own = class_of(request.granules);
    if (const BlockIndex hole = heads_[own]; hole != kNoBlock && fits(blocks[hole], request)) {
      return hole;
    }
    BlockIndex hole = first_from_class(own + 1);
    while (hole != kNoBlock && !fits(blocks[hole], request)) [[unlikely]] {
        hole = first_from_class(blocks[hole].hole.size_class + 1);
      }
    return hole != kNoBlock ? hole : best_of_classes(blocks, own, request, search);
  }

  // Calls `visit` with each hole of at least so many granules, in no order, and perhaps with
  // smaller ones. `visit` must not file anything.
  template <typename Visit>
  void for_each_from(const BlockSlab& blocks, std::uint32_t granules, Visit visit) const {
    for (std::uint32_t size_class = class_of(granules); size_class < kClasses; ++size_class) {
      for (BlockIndex index = heads_[size_class]; index != kNoBlock;
           index = blocks[index].hole.next) {
        visit(index);
      }
    }
  }

  // Bytes of the largest request that find() would satisfy, or up to 1/16 less.
  std::uint64_t largest_fit_bytes(const BlockSlab& blocks) const;

  // Forgets every hole.
  void clear() noexcept;

  // Adds to `problems` what is wrong with the bins' own structure. Returns the number of holes
  // filed.
  std::uint64_t verify(const BlockSlab& blocks, std::string& problems) const;

 private:
  static constexpr std::uint32_t kStepBits = 5;
  static constexpr std::uint32_t kSteps = 1U << kStepBits;
  static constexpr std::uint32_t kClasses = (32 - kStepBits + 1) * kSteps;
  static constexpr std::uint32_t kWords =
      kClasses / 64 + 1;  // the last word has no class, but find() may read it

  static bool fits(const Block& hole, const Request& request) {
    return hole.granules >= request.granules &&
           hole.granules - request.granules >= ((~hole.start + 1) & (request.alignment - 1));
  }

  void insert(BlockSlab& blocks, BlockIndex index, std::uint32_t size_class) {
    BlockIndex& head = heads_[size_class];
    const BlockIndex next = head;
    blocks[index].hole = {next, kNoBlock, size_class};
    blocks[next].hole.previous = index;  // `next` may be kNoBlock: see remove()
    bitmap_[size_class / 64] |= std::uint64_t{1} << (size_class % 64);
    summary_ |= std::uint64_t{1} << (size_class / 64);
    head = index;
  }

  // The newest hole of the first class from `size_class` on that has one; kNoBlock if none has.
  BlockIndex first_from_class(std::uint32_t size_class) const {
    std::uint32_t word = size_class / 64;
    std::uint64_t classes = bitmap_[word] & (~std::uint64_t{0} << (size_class % 64));
    if (classes == 0) {
      const std::uint64_t words = summary_ & (~std::uint64_t{1} << word);
      if (words == 0) {
        return kNoBlock;
      }
      word = static_cast<std::uint32_t>(std::countr_zero(words));
      classes = bitmap_[word];
    }
    return heads_[word * 64 + static_cast<std::uint32_t>(std::countr_zero(classes))];
  }

  BlockIndex best_of_classes(const BlockSlab& blocks, std::uint32_t from, const Request& request,
                             Search search) const;

  const BlockState state_;
  std::uint64_t summary_ = 0;  // a bit for each word of the bitmap that is not 0
  std::array<std::uint64_t, kWords> bitmap_{};
  std::array<BlockIndex, kClasses> heads_{};
};

}  // namespace cubfc::arena
