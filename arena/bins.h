// The free blocks of an arena by size. Knows records and sizes; nothing of addresses beyond a
// block's own place, nothing of neighbours.
//
// A request below a page (64 KiB) needs granules; one of a page or more needs whole aligned pages.
// So a hole is filed by the aligned pages in it or, when it has none, by its granules:
//
//   classes   0..255   holes without an aligned page: one class for each count of granules (< 256)
//   classes 256..319   holes with 1..63 aligned pages: one class for each count
//   classes 320..      above: 32 classes for each power of two; within one, a bitwise trie on the
//   low
//                      bits of the page count. Holes of equal count hang in a ring on the trie's
//                      node.
//
// A bitmap of the non-empty classes with one summary word over it makes "the next larger class" two
// count-trailing-zeros. Every operation takes O(bits of a size): nothing scans a list.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "arena/block.h"
#include "arena/units.h"

namespace cubfc::arena {

class Bins {
 public:
  explicit Bins(BlockSlab& blocks) : blocks_(blocks) {}

  // Files a block whose state is kFree. Its start and size must not change while it is filed.
  void insert(BlockIndex index);
  void remove(BlockIndex index);

  // Forgets every hole.
  void clear() noexcept {
    roots_.fill(kNoBlock);
    bitmap_.fill(0);
    summary_ = 0;
  }

  // The best fit for a request of `granules`, or kNoBlock; the hole stays filed. A request of a
  // page or more (whole pages) gets the hole with the fewest aligned pages that suffice: exact best
  // fit. A smaller one gets the smallest hole without an aligned page that suffices, else the
  // smallest with one.
  BlockIndex best_fit(std::uint32_t granules) const;

  // Bytes of the largest request that best_fit() would satisfy.
  std::uint64_t largest_fit_bytes() const;

  // Adds to `problems` what is wrong with the bins' own structure. Returns the number of holes
  // filed.
  std::uint64_t verify(std::string& problems) const;

 private:
  static constexpr std::uint32_t kFirstPageClass = 256;
  static constexpr std::uint32_t kSteps = 32;
  static constexpr std::uint32_t kExactPages = 64;   // page counts below have a class of their own
  static constexpr std::uint32_t kMaxPageBits = 25;  // 2^32 granules are 2^25 pages
  static constexpr std::uint32_t kClasses =
      kFirstPageClass + kExactPages + (kMaxPageBits - 6 + 1) * kSteps;
  static constexpr std::uint32_t kWords = (kClasses + 63) / 64;

  // What a hole is filed under: its class, and the bits below the class's resolution.
  struct Place {
    std::uint32_t size_class;
    std::uint32_t low;       // the low bits of the size
    std::uint32_t low_bits;  // how many
  };
  static Place place_of_granules(std::uint32_t granules);
  static Place place_of_pages(std::uint32_t pages);
  static Place place_of(const Block& block);

  BlockIndex first_fit_from_class(std::uint32_t size_class) const;
  BlockIndex smallest_in(BlockIndex root) const;
  BlockIndex best_in_class(const Place& wanted) const;
  BlockIndex spare(BlockIndex node) const;
  void unlink_node(BlockIndex index, std::uint32_t size_class);
  void replace_in_parent(BlockIndex index, BlockIndex replacement, std::uint32_t size_class);
  void set_class(std::uint32_t size_class, BlockIndex root);
  std::uint64_t verify_trie(BlockIndex node, BlockIndex parent, std::uint32_t size_class,
                            std::uint32_t prefix, std::uint32_t depth, std::string& problems) const;

  BlockSlab& blocks_;
  std::array<BlockIndex, kClasses> roots_{};
  std::array<std::uint64_t, kWords> bitmap_{};
  std::uint64_t summary_ = 0;
};

// The aligned pages inside a run of granules that starts `start` granules into a region whose base
// is page-aligned (Regions sees to that).
constexpr std::uint32_t aligned_pages(std::uint32_t start, std::uint32_t granules) {
  const std::uint64_t first = round_up(start, kGranulesPerPage);
  const std::uint64_t end = round_down(std::uint64_t{start} + granules, kGranulesPerPage);
  return end > first ? static_cast<std::uint32_t>((end - first) / kGranulesPerPage) : 0;
}

}  // namespace cubfc::arena
