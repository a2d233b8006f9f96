// A baseline: first fit over a linear list of holes in address order, rounded to 512 bytes. The
// list is an array: what a search costs is not made worse than it has to be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace cubfc::bench {

class FirstFit {
 public:
  struct Handle {
    std::uint64_t address;
    std::uint64_t bytes;
  };

  explicit FirstFit(std::uint64_t capacity) : holes_{{kBase, capacity / kAlignment * kAlignment}} {}

  Handle allocate(std::uint64_t request) {
    const std::uint64_t bytes = (request + kAlignment - 1) / kAlignment * kAlignment;
    const auto hole = std::find_if(holes_.begin(), holes_.end(),
                                   [bytes](const Handle& h) { return h.bytes >= bytes; });
    if (hole == holes_.end()) {
      return {0, 0};
    }
    const Handle block{hole->address, bytes};
    hole->address += bytes;
    hole->bytes -= bytes;
    if (hole->bytes == 0) {
      holes_.erase(hole);
    }
    return block;
  }

  void free(const Handle& block) {
    const auto next = std::lower_bound(
        holes_.begin(), holes_.end(), block.address,
        [](const Handle& hole, std::uint64_t address) { return hole.address < address; });
    const bool joins_next = next != holes_.end() && block.address + block.bytes == next->address;
    const auto previous = next == holes_.begin() ? holes_.end() : std::prev(next);
    if (previous != holes_.end() && previous->address + previous->bytes == block.address) {
      previous->bytes += block.bytes;
      if (joins_next) {
        previous->bytes += next->bytes;
        holes_.erase(next);
      }
    } else if (joins_next) {
      next->address = block.address;
      next->bytes += block.bytes;
    } else {
      holes_.insert(next, block);
    }
  }

  static bool failed(const Handle& block) { return block.bytes == 0; }
  static std::uint64_t address(const Handle& block) { return block.address; }

 private:
  static constexpr std::uint64_t kAlignment = 512;
  static constexpr std::uint64_t kBase = 0x7F0000000000;

  std::vector<Handle> holes_;  // in address order; no two side by side
};

}  // namespace cubfc::bench
