// A set of addresses. Knows nothing of what lies there.
#pragma once

#include <cstdint>
#include <map>

namespace cubfc::recordings {

// Addresses that are in use, in pieces that do not overlap.
class Pieces {
 public:
  struct Piece {
    std::uint64_t end = 0;
    bool apart = false;  // stays a piece of its own; others become one with those they touch
  };

  void add(std::uint64_t begin, std::uint64_t end, bool apart);
  void remove(std::uint64_t begin, std::uint64_t end);
  // The pieces, by where each begins.
  const std::map<std::uint64_t, Piece>& all() const { return pieces_; }
  // The piece that `address` lies in; all().end() if it lies in none.
  std::map<std::uint64_t, Piece>::const_iterator around(std::uint64_t address) const;

 private:
  std::map<std::uint64_t, Piece> pieces_;
};

}  // namespace cubfc::recordings
