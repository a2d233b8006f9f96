#include "cli/recordings/pytorch_snapshot/events.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cli/recordings/pytorch_snapshot/pieces.h"

namespace cubfc::recordings {
namespace {

using trace::Kind;

// The longest time since the start, at which times in nanoseconds still fit a trace.
constexpr std::uint64_t kLongestUs = std::uint64_t{1} << 45;

class EventMaker {
 public:
  EventMaker(const DeviceHistory& history, const CacheSettings& settings, std::uint32_t place,
             Span span, std::vector<std::string>& texts)
      : history_(history), settings_(settings), place_(place), span_(span), texts_(texts) {}

  DeviceEvents make() {
    add_segments_of_before();
    add_blocks_of_before();
    before_ = events_.size();
    find_stated();
    for (index_ = 0; index_ < history_.entries.size(); ++index_) {
      add(history_.entries[index_]);
    }
    return {std::move(events_), before_};
  }

 private:
  using Entry = DeviceHistory::Entry;
  using Extent = DeviceHistory::Extent;

  struct Block {
    std::uint64_t bytes = 0;  // padding included
    bool retired = false;
  };
  using Live = std::map<std::uint64_t, Block>;  // by address

  // Finds the segments from before the first entry: begins with those at the end, and undoes the
  // entries from the last to the first.
  void add_segments_of_before() {
    for (const Extent& segment : history_.segments) {
      segments_.add(segment.address, segment.address + segment.bytes, !segment.expandable);
    }
    for (auto entry = history_.entries.rbegin(); entry != history_.entries.rend(); ++entry) {
      if (entry->kind == Kind::kGrow) {
        segments_.remove(entry->address, entry->address + entry->bytes);
      } else if (entry->kind == Kind::kShrink) {
        segments_.add(entry->address, entry->address + entry->bytes, !entry->expandable);
      }
    }
    for (const auto& [begin, piece] : segments_.all()) {
      add_event(Kind::kGrow, {.address = begin, .bytes = piece.end - begin});
      events_.back().apart = piece.apart;
    }
  }

  void add_blocks_of_before() {
    // First those that an entry frees, whose padding the snapshot does not state; then the others.
    std::vector<Extent> blocks;
    std::unordered_set<std::uint64_t> seen;
    for (const Entry& entry : history_.entries) {
      const bool of_block = entry.kind == Kind::kAllocate || entry.kind == Kind::kRetire ||
                            entry.kind == Kind::kReclaim;
      if (of_block && seen.insert(entry.address).second && entry.kind != Kind::kAllocate) {
        blocks.push_back({.address = entry.address, .bytes = entry.bytes, .stream = entry.stream});
        live_[entry.address];
      }
    }
    const std::size_t ending = blocks.size();
    for (const Extent& block : history_.blocks) {
      if (seen.insert(block.address).second) {
        blocks.push_back(block);
        live_[block.address];
      }
    }
    for (std::size_t n = 0; n < blocks.size(); ++n) {
      Extent& block = blocks[n];
      if (n < ending) {
        block.padding = padding_of(block.address, block.bytes);
      }
      live_[block.address].bytes = block.bytes + block.padding;
      add_event(Kind::kAllocate, block);
    }
  }

  // Finds the entries that allocated blocks which are there at the end, and whose padding the
  // snapshot states.
  void find_stated() {
    std::unordered_map<std::uint64_t, std::size_t> last;  // by address
    for (std::size_t n = 0; n < history_.entries.size(); ++n) {
      if (history_.entries[n].kind == Kind::kAllocate) {
        last[history_.entries[n].address] = n;
      }
    }
    for (const Extent& block : history_.blocks) {
      const auto entry = last.find(block.address);
      if (entry != last.end() && history_.entries[entry->second].bytes == block.bytes) {
        stated_[entry->second] = block.padding;
      }
    }
  }

  void add(const Entry& entry) {
    const Extent extent{entry.address, entry.bytes,    0,    entry.stack,
                        entry.stream,  entry.category, false};
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
      case Kind::kGrow:
        segments_.add(entry.address, entry.address + entry.bytes, !entry.expandable);
        add_event(entry.kind, extent);
        events_.back().apart = !entry.expandable;
        break;
      case Kind::kShrink:
        segments_.remove(entry.address, entry.address + entry.bytes);
        add_event(entry.kind, extent);
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

  void allocate(Extent block) {
    if (const auto old = live_.find(block.address); old != live_.end()) {
      // No entry says that the block which was at this address before is free.
      end_block(old, old->second.retired ? Kind::kReclaim : Kind::kFree);
    }
    const auto stated = stated_.find(index_);
    block.padding =
        stated == stated_.end() ? padding_of(block.address, block.bytes) : stated->second;
    live_[block.address] = {block.bytes + block.padding, false};
    add_event(Kind::kAllocate, block);
  }

  // The padding of a block that begins at `address`. Computed from the room between there and the
  // next block, or the segment's end.
  std::uint32_t padding_of(std::uint64_t address, std::uint64_t bytes) const {
    const auto segment = segments_.around(address);
    const auto next = live_.upper_bound(address);
    const std::uint64_t next_begin =
        next == live_.end() ? std::numeric_limits<std::uint64_t>::max() : next->first;
    std::uint64_t held = 0;
    if (segment == segments_.all().end()) {
      held = std::max(bytes, std::min(next_begin - address, rounded(bytes, settings_)));
    } else {
      const auto& [begin, piece] = *segment;
      held = given(bytes, std::min(next_begin, piece.end) - address,
                   piece.apart ? piece.end - begin : 0, settings_);
    }
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(held - bytes, std::numeric_limits<std::uint32_t>::max()));
  }

  // Mostly the next entry makes the block free: then one kFree stands for both entries.
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

  void end_block(Live::iterator block, Kind kind) {
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
    event.caller = extent.category;  // name_callers() (pytorch_snapshot.cpp) replaces it
    event.place = place_;
    events_.push_back(event);
  }

  // The time of the next event. Events from before the first entry have the time of the first entry
  // of all devices, which is 0.
  std::uint64_t now() const {
    if (span_.first_us == span_.last_us) {
      return events_.size() - std::min(events_.size(), before_);
    }
    if (events_.size() < before_) {
      return 0;
    }
    const std::uint64_t us = history_.entries[index_].time_us;
    return std::min(us - std::min(us, span_.first_us), kLongestUs) * 1000;
  }

  const DeviceHistory& history_;
  const CacheSettings& settings_;
  const std::uint32_t place_;
  const Span span_;
  std::vector<std::string>& texts_;
  std::size_t index_ = 0;                                  // of the current entry
  std::unordered_map<std::size_t, std::uint32_t> stated_;  // the padding, by the entry's index
  std::vector<Event> events_;
  // How many of events_ are from before the first entry; until all of these are made, the largest
  // number.
  std::size_t before_ = std::numeric_limits<std::size_t>::max();
  Pieces segments_;
  Live live_;
};

}  // namespace

Span span_of(const Histories& histories) {
  Span span{~std::uint64_t{0}, 0};
  for (const auto& [number, history] : histories.devices) {
    if (!history.entries.empty()) {
      span.first_us = std::min(span.first_us, history.entries.front().time_us);
      span.last_us = std::max(span.last_us, history.entries.back().time_us);
    }
  }
  return span.first_us <= span.last_us ? span : Span{};
}

DeviceEvents events_of(const DeviceHistory& history, const CacheSettings& settings,
                       std::uint32_t place, Span span, std::vector<std::string>& texts) {
  return EventMaker(history, settings, place, span, texts).make();
}

}  // namespace cubfc::recordings
