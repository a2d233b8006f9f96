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
  // Removes the piece that is to be released next for a request of so many bytes. That is the
  // smallest piece that is large enough, or the largest of those that are not: whichever way leaves
  // fewer bytes over, since those must be created again. Precondition: !empty().
  Piece take(std::uint64_t bytes) noexcept;

 private:
  using Iterator = std::vector<Piece>::const_iterator;
  std::uint64_t excess_before(Iterator end, std::uint64_t bytes) const noexcept;

  std::vector<Piece> pieces_;  // smallest first
};

}  // namespace cubfc
