#include "shim/limit/held_pieces.h"

#include <algorithm>
#include <iterator>

namespace cubfc {

void HeldPieces::add(const Piece& piece) {
  const auto place =
      std::upper_bound(pieces_.begin(), pieces_.end(), piece.bytes,
                       [](std::uint64_t size, const Piece& each) { return size < each.bytes; });
  pieces_.insert(place, piece);
}

HeldPieces::Piece HeldPieces::take(std::uint64_t bytes) noexcept {
  const auto larger =
      std::lower_bound(pieces_.cbegin(), pieces_.cend(), bytes,
                       [](const Piece& each, std::uint64_t least) { return each.bytes < least; });
  const bool smaller_ones =
      larger == pieces_.cend() || excess_before(larger, bytes) < larger->bytes - bytes;
  const auto chosen = smaller_ones ? std::prev(larger) : larger;
  const Piece piece = *chosen;
  pieces_.erase(chosen);
  return piece;
}

// The pieces before `end` are all smaller than `bytes`. Computes how many bytes too many are
// released if these pieces are released for a request of `bytes`, each time the largest piece that
// fits, and at last the smallest one that does not. UINT64_MAX if all of these pieces together are
// too few.
std::uint64_t HeldPieces::excess_before(Iterator end, std::uint64_t bytes) const noexcept {
  std::uint64_t last = UINT64_MAX;  // the smallest of those that were too large
  while (end != pieces_.begin() && bytes > 0) {
    --end;
    if (end->bytes <= bytes) {
      bytes -= end->bytes;
    } else {
      last = end->bytes;
    }
  }
  if (bytes == 0) {
    return 0;
  }
  return last == UINT64_MAX ? last : last - bytes;
}

}  // namespace cubfc
