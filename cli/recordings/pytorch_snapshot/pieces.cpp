#include "cli/recordings/pytorch_snapshot/pieces.h"

#include <iterator>
#include <utility>

namespace cubfc::recordings {

void Pieces::add(std::uint64_t begin, std::uint64_t end, bool apart) {
  remove(begin, end);
  if (begin >= end) {
    return;
  }
  auto after = pieces_.lower_bound(end);
  if (!apart && after != pieces_.end() && after->first == end && !after->second.apart) {
    end = after->second.end;
    after = pieces_.erase(after);
  }
  if (!apart && after != pieces_.begin()) {
    Piece& before = std::prev(after)->second;
    if (before.end == begin && !before.apart) {
      before.end = end;
      return;
    }
  }
  pieces_[begin] = {end, apart};
}

void Pieces::remove(std::uint64_t begin, std::uint64_t end) {
  auto piece = pieces_.lower_bound(begin);
  if (piece != pieces_.begin() && std::prev(piece)->second.end > begin) {
    const Piece cut =
        std::exchange(std::prev(piece)->second, {begin, std::prev(piece)->second.apart});
    piece = cut.end > end ? pieces_.insert_or_assign(end, cut).first : piece;
  }
  while (piece != pieces_.end() && piece->first < end) {
    const Piece cut = piece->second;
    piece = pieces_.erase(piece);
    if (cut.end > end) {
      piece = pieces_.emplace(end, cut).first;
    }
  }
}

std::map<std::uint64_t, Pieces::Piece>::const_iterator Pieces::around(std::uint64_t address) const {
  auto piece = pieces_.upper_bound(address);
  if (piece == pieces_.begin()) {
    return pieces_.end();
  }
  --piece;
  return piece->second.end > address ? piece : pieces_.end();
}

}  // namespace cubfc::recordings
