// The pieces of physical memory that a Preallocation holds, and which of them goes next.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

namespace cubfc {

// Not thread-safe. No driver call.
class HeldPieces {
 public:
  struct Piece {
    CUmemGenericAllocationHandle handle;
    std::uint64_t bytes;
  };

  bool empty() const noexcept { return pieces_.empty(); }
  void add(const Piece& piece);  // throws std::bad_alloc, and has changed nothing then
  // The one that goes next for so many bytes: a piece that is large enough, or the first of several
  // smaller ones; those of which less is left over, for that must be taken anew. Precondition:
  // there are pieces.
  Piece take(std::uint64_t bytes) noexcept;

 private:
  using Iterator = std::vector<Piece>::const_iterator;
  std::uint64_t excess_before(Iterator end, std::uint64_t bytes) const noexcept;

  std::vector<Piece> pieces_;  // smallest first
};

}  // namespace cubfc
