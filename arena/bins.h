// The free blocks of an arena by size. Knows records and sizes; nothing of addresses beyond a
// block's own place, nothing of neighbours.
//
// A request below a page (64 KiB) needs granules; one of a page or more needs whole aligned pages.
// So a hole is filed by the aligned pages in it or, when it has none, by its granules:
//
//   classes   0..255   holes without an aligned page: one class for each count of granules (< 256)
//   classes 256..319   holes with 1..63 aligned pages: one class for each count
//   classes 320..      above: 32 classes for each power of two
//
// A bitmap of the non-empty classes with one summary word over it makes "the next larger class" two
// count-trailing-zeros.
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
    heads_.fill(kNoBlock);
    bitmap_.fill(0);
    summary_ = 0;
  }

  // A near-best fit for a request of `granules`, or kNoBlock when no hole suffices; the hole stays
  // filed. Where a class is one size, and so below 4 MiB, the fit is the best. In the wider classes
  // the request's own is looked through for the best of its first kLookAt holes; then any hole of
  // the next larger class is taken, which is at most 1/16 too large for being the smallest. The
  // whole of the own class is searched only when the alternative is to grow or to fail.
  BlockIndex best_fit(std::uint32_t granules) const;

  // Bytes of the largest request that best_fit() would satisfy, or up to 1/32 less.
  std::uint64_t largest_fit_bytes() const;

  // Adds to `problems` what is wrong with the bins' own structure. Returns the number of holes
  // filed.
  std::uint64_t verify(std::string& problems) const;

 private:
  static constexpr std::uint32_t kLookAt = 16;
  static constexpr std::uint32_t kFirstPageClass = 256;
  static constexpr std::uint32_t kSteps = 32;
  static constexpr std::uint32_t kExactPages = 64;   // page counts below have a class of their own
  static constexpr std::uint32_t kMaxPageBits = 25;  // 2^32 granules are 2^25 pages
  static constexpr std::uint32_t kClasses =
      kFirstPageClass + kExactPages + (kMaxPageBits - 6 + 1) * kSteps;
  static constexpr std::uint32_t kWords = (kClasses + 63) / 64;

  static std::uint32_t class_of_pages(std::uint32_t pages);
  static std::uint32_t class_of(const Block& block);

  std::uint32_t pages_of(BlockIndex index) const;
  BlockIndex first_from_class(std::uint32_t size_class) const;
  BlockIndex best_in_class(std::uint32_t size_class, std::uint32_t pages,
                           std::uint32_t look_at) const;

  BlockSlab& blocks_;
  std::array<BlockIndex, kClasses> heads_{};
  std::array<std::uint64_t, kWords> bitmap_{};
  std::uint64_t summary_ = 0;
};

// The aligned pages inside a run of granules that starts `start` granules into a region whose base
// is page-aligned (Regions sees to that).
constexpr std::uint32_t aligned_pages(std::uint32_t start, std::uint32_t granules) {
  const std::uint64_t first = (std::uint64_t{start} + kGranulesPerPage - 1) / kGranulesPerPage;
  const std::uint64_t end = (std::uint64_t{start} + granules) / kGranulesPerPage;
  return end > first ? static_cast<std::uint32_t>(end - first) : 0;
}

}  // namespace cubfc::arena
