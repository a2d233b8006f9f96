// Goes through a History in order. An event ends blocks and regions before it begins others; only a
// block that begins and ends by the same event begins first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cli/report/history.h"

namespace cubfc::report {

// Goes forward through the blocks' beginnings and ends. Each call of forward_to() continues where
// the call before has stopped.
class BlockSweep {
 public:
  explicit BlockSweep(const History& history) : history_(&history) {}

  // Calls end(block) and begin(block), in order, for all that happened up to this event and by it.
  template <typename Begin, typename End>
  void forward_to(std::uint32_t event, Begin begin, End end) {
    const std::vector<Block>& blocks = history_->blocks;
    const std::vector<Change>& ends = history_->block_ends;
    for (;;) {
      const std::uint32_t begins = next_ < blocks.size() ? blocks[next_].begin : kNever;
      const std::uint32_t gone = next_end_ < ends.size() ? ends[next_end_].event : kNever;
      if (std::min(begins, gone) == kNever || std::min(begins, gone) > event) {
        return;
      }
      if (gone <= begins && ends[next_end_].index < next_) {
        end(ends[next_end_++].index);
      } else {
        begin(static_cast<std::uint32_t>(next_++));
      }
    }
  }

 private:
  const History* history_;
  std::size_t next_ = 0;
  std::size_t next_end_ = 0;
};

struct RegionChange {
  std::uint32_t event;
  std::uint32_t region;
  bool begins;
};

// The beginnings and ends of all regions but those with seen_only, in order.
inline std::vector<RegionChange> region_changes(const History& history) {
  std::vector<RegionChange> changes;
  for (std::uint32_t index = 0; index < history.regions.size(); ++index) {
    const Region& region = history.regions[index];
    if (region.seen_only) {
      continue;
    }
    changes.push_back({region.begin, index, true});
    if (region.end != kNever) {
      changes.push_back({region.end, index, false});
    }
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const RegionChange& a, const RegionChange& b) {
                     return a.event != b.event ? a.event < b.event : a.begins < b.begins;
                   });
  return changes;
}

}  // namespace cubfc::report
