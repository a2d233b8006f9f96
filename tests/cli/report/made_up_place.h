// An address space that grows, hands out the smallest free piece that is large enough, and gives
// back its end. As simple as it can be: what it records makes sense, and no more is asked of it.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace made_up {

class Space {
 public:
  Space(std::uint64_t base, std::uint64_t limit) : base_(base), limit_(limit) {}

  // The address, or 0 when the limit is reached. grown(address, bytes) tells what it takes.
  template <typename Grown>
  std::uint64_t allocate(std::uint64_t bytes, std::uint64_t slice, Grown grown) {
    auto piece = by_size_.lower_bound({bytes, 0});
    if (piece == by_size_.end()) {
      const std::uint64_t more = (bytes + slice - 1) / slice * slice;
      if (size_ + more > limit_) {
        return 0;
      }
      grown(base_ + size_, more);
      const std::uint64_t at = base_ + size_;
      size_ += more;
      give(at, more);
      piece = by_size_.lower_bound({bytes, 0});
    }
    const auto [size, address] = *piece;
    by_size_.erase(piece);
    by_address_.erase(address);
    if (size > bytes) {
      give(address + bytes, size - bytes);
    }
    return address;
  }

  void give(std::uint64_t address, std::uint64_t bytes) {
    auto after = by_address_.lower_bound(address);
    if (after != by_address_.end() && after->first == address + bytes) {
      bytes += after->second;
      by_size_.erase({after->second, after->first});
      after = by_address_.erase(after);
    }
    if (after != by_address_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == address) {
        address = before->first;
        bytes += before->second;
        by_size_.erase({before->second, before->first});
        by_address_.erase(before);
      }
    }
    by_address_[address] = bytes;
    by_size_.insert({bytes, address});
  }

  // Whole pages at the end that no block lies in: gone(address, bytes).
  template <typename Gone>
  void shrink(std::uint64_t page, Gone gone) {
    if (by_address_.empty()) {
      return;
    }
    const auto last = std::prev(by_address_.end());
    const auto [address, bytes] = *last;
    const std::uint64_t from = (address + page - 1) / page * page;
    if (address + bytes != base_ + size_ || from >= base_ + size_) {
      return;
    }
    const std::uint64_t less = base_ + size_ - from;
    by_size_.erase({bytes, address});
    by_address_.erase(last);
    if (from > address) {
      by_address_[address] = from - address;
      by_size_.insert({from - address, address});
    }
    size_ -= less;
    gone(from, less);
  }

 private:
  std::uint64_t base_;
  std::uint64_t limit_;
  std::uint64_t size_ = 0;
  std::map<std::uint64_t, std::uint64_t> by_address_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;
};

}  // namespace made_up
