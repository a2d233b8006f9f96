#include "cli/recordings/pytorch_snapshot/events.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cli/recordings/pytorch_snapshot/pieces.h"

namespace cubfc::recordings {
namespace {

using trace::Kind;

// So long that times in nanoseconds fit a trace.
constexpr std::uint64_t kLongestUs = std::uint64_t{1} << 45;

class EventMaker {
 public:
  EventMaker(const DeviceHistory& history, std::uint32_t place, std::uint64_t first_us,
             std::vector<std::string>& texts)
      : history_(history), place_(place), first_us_(first_us), texts_(texts) {}

  std::vector<Event> make() {
    add_segments_of_before();
    add_blocks_of_before();
    for (index_ = 0; index_ < history_.entries.size(); ++index_) {
      add(history_.entries[index_]);
    }
    return std::move(events_);
  }

 private:
  using Entry = DeviceHistory::Entry;
  using Extent = DeviceHistory::Extent;

  struct Block {
    std::uint64_t bytes = 0;  // padding included
    bool retired = false;
  };

  // What is there at the end, and what happened, from the last to the first.
  void add_segments_of_before() {
    Pieces pieces;
    for (const Extent& segment : history_.segments) {
      pieces.add(segment.address, segment.address + segment.bytes);
    }
    for (auto entry = history_.entries.rbegin(); entry != history_.entries.rend(); ++entry) {
      if (entry->kind == Kind::kGrow) {
        pieces.remove(entry->address, entry->address + entry->bytes);
      } else if (entry->kind == Kind::kShrink) {
        pieces.add(entry->address, entry->address + entry->bytes);
      }
    }
    for (const auto& [begin, end] : pieces.ends()) {
      add_event(Kind::kGrow, {.address = begin, .bytes = end - begin});
    }
  }

  void add_blocks_of_before() {
    std::unordered_set<std::uint64_t> seen;
    for (const Entry& entry : history_.entries) {
      const bool of_block = entry.kind == Kind::kAllocate || entry.kind == Kind::kRetire ||
                            entry.kind == Kind::kReclaim;
      if (of_block && seen.insert(entry.address).second && entry.kind != Kind::kAllocate) {
        allocate({.address = entry.address, .bytes = entry.bytes});
      }
    }
    for (const Extent& block : history_.blocks) {
      if (seen.insert(block.address).second) {
        allocate(block);
      }
    }
  }

  void add(const Entry& entry) {
    const Extent extent{entry.address, entry.bytes, 0, entry.stack, entry.stream, entry.category};
    switch (entry.kind) {
      case Kind::kAllocate:
        allocate(extent);
        break;
      case Kind::kRetire:
        retire(entry);
        break;
      case Kind::kReclaim:
        reclaim(entry);
        break;
      case Kind::kOutOfMemory:
        add_event(entry.kind, {.address = entry.bytes});
        events_.back().text = static_cast<std::uint32_t>(texts_.size());
        texts_.push_back("PyTorch asked the driver for " + std::to_string(entry.bytes) +
                         " bytes; the device had " + std::to_string(entry.free_bytes) + " free");
        break;
      default:
        add_event(entry.kind, extent);
        break;
    }
  }

  void allocate(const Extent& block) {
    if (const auto old = live_.find(block.address); old != live_.end()) {
      end_block(old, old->second.retired ? Kind::kReclaim : Kind::kFree);  // it is not told of
    }
    live_[block.address] = {block.bytes + block.padding, false};
    add_event(Kind::kAllocate, block);
  }

  // Mostly the block is free at once.
  void retire(const Entry& entry) {
    const auto block = live_.find(entry.address);
    if (block == live_.end() || block->second.retired) {
      return;
    }
    const std::size_t next = index_ + 1;
    if (next < history_.entries.size() && history_.entries[next].kind == Kind::kReclaim &&
        history_.entries[next].address == entry.address) {
      end_block(block, Kind::kFree);
      ++index_;
    } else {
      block->second.retired = true;
      add_event(Kind::kRetire, {.address = entry.address, .bytes = block->second.bytes});
    }
  }

  void reclaim(const Entry& entry) {
    if (const auto block = live_.find(entry.address); block != live_.end()) {
      end_block(block, block->second.retired ? Kind::kReclaim : Kind::kFree);
    }
  }

  void end_block(std::unordered_map<std::uint64_t, Block>::iterator block, Kind kind) {
    add_event(kind, {.address = block->first, .bytes = block->second.bytes});
    live_.erase(block);
  }

  void add_event(Kind kind, const Extent& extent) {
    Event event;
    event.kind = kind;
    event.time_ns = now();
    event.address = extent.address;
    event.bytes = extent.bytes;
    event.padding = extent.padding;
    event.stack = extent.stack;
    event.thread = extent.stream;
    event.caller = extent.category;  // until callers are named
    event.place = place_;
    events_.push_back(event);
  }

  std::uint64_t now() const {
    if (first_us_ == 0) {
      return events_.size();
    }
    const std::uint64_t us =
        index_ < history_.entries.size() ? history_.entries[index_].time_us : first_us_;
    return std::min(us - std::min(us, first_us_), kLongestUs) * 1000;
  }

  const DeviceHistory& history_;
  const std::uint32_t place_;
  const std::uint64_t first_us_;  // of all devices; 0: there are no times
  std::vector<std::string>& texts_;
  std::size_t index_ = 0;  // of the entry that is looked at
  std::vector<Event> events_;
  std::unordered_map<std::uint64_t, Block> live_;
};

}  // namespace

std::uint64_t first_us_of(const DeviceHistories& histories) {
  std::uint64_t first = ~std::uint64_t{0};
  for (const auto& [number, history] : histories) {
    if (!history.entries.empty()) {
      first = std::min(first, history.entries.front().time_us);
    }
  }
  return first == ~std::uint64_t{0} ? 0 : first;
}

std::vector<Event> events_of(const DeviceHistory& history, std::uint32_t place,
                             std::uint64_t first_us, std::vector<std::string>& texts) {
  return EventMaker(history, place, first_us, texts).make();
}

}  // namespace cubfc::recordings
