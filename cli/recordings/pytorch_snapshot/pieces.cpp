#include "cli/recordings/pytorch_snapshot/pieces.h"

#include <iterator>
#include <utility>

namespace cubfc::recordings {

void Pieces::add(std::uint64_t begin, std::uint64_t end) {
  remove(begin, end);
  if (begin < end) {
    ends_[begin] = end;
  }
}

void Pieces::remove(std::uint64_t begin, std::uint64_t end) {
  auto piece = ends_.lower_bound(begin);
  if (piece != ends_.begin() && std::prev(piece)->second > begin) {
    const std::uint64_t its_end = std::exchange(std::prev(piece)->second, begin);
    piece = its_end > end ? ends_.insert_or_assign(end, its_end).first : piece;
  }
  while (piece != ends_.end() && piece->first < end) {
    const std::uint64_t its_end = piece->second;
    piece = ends_.erase(piece);
    if (its_end > end) {
      piece = ends_.emplace(end, its_end).first;
    }
  }
}

}  // namespace cubfc::recordings
