#include "cli/recordings/pytorch_snapshot.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cli/recordings/pickle.h"

namespace cubfc::recordings {
namespace {

using trace::Kind;
using Value = Pickle::Value;

constexpr std::uint64_t kMostDevices = 256;
// Of a dictionary that is looked into.
constexpr std::size_t kMostNames = 64;
// So long that times in nanoseconds fit a trace.
constexpr std::uint64_t kLongestUs = std::uint64_t{1} << 45;

// An entry of a trace, of its device.
struct Entry {
  Kind kind = Kind::kNothing;
  std::uint64_t time_us = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;  // kOutOfMemory: that the device had
  std::uint32_t stack = kNone;
};

// A block or a segment that is there at the end.
struct Extent {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t padding = 0;
  std::uint32_t stack = kNone;
};

struct History {
  std::vector<Entry> entries;
  std::vector<Extent> segments;
  std::vector<Extent> blocks;
};
// By the devices' numbers.
using Histories = std::map<std::uint64_t, History>;

std::uint32_t as_padding(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max()));
}

// What a pickle says, without what is of no interest; what is wrong is named by its path in the
// pickle, as Python would write it.
class SnapshotReader {
 public:
  SnapshotReader(const Input& input, const Pickle& pickle, Recording& recording)
      : input_(input), pickle_(pickle), recording_(recording) {}

  Histories read() {
    const Value& root = pickle_.root();
    if (root.type == Pickle::Type::kList) {
      take_segments(root, "");
      return std::move(devices_);
    }
    const Value* const segments = find(root, "segments");
    const Value* const traces = find(root, "device_traces");
    if (segments == nullptr && traces == nullptr) {
      fail("the pickle is no memory snapshot: it has neither ['segments'] nor ['device_traces']");
    }
    if (segments != nullptr) {
      take_segments(*segments, "['segments']");
    }
    if (traces != nullptr) {
      take_traces(*traces);
    }
    return std::move(devices_);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw BadRecording(input_.name() + ": " + text);
  }

  static std::string at(const std::string& path, std::size_t index) {
    return path + "[" + std::to_string(index) + "]";
  }

  // Where `path` and the index are put together only when something is wrong.
  template <typename Path>
  const std::vector<Value>& list(const Value* value, Path path) const {
    if (value == nullptr || value->type != Pickle::Type::kList) {
      fail(path() + " is no list");
    }
    return pickle_.items(*value);
  }
  // Lists may refer to the same dictionary again and again, but not for ever.
  template <typename Path>
  void check_dict(const Value& value, Path path) {
    if (value.type != Pickle::Type::kDict) {
      fail(path() + " is no dictionary");
    }
    if (++dicts_ > input_.offset()) {
      fail(path() + ": there are more blocks and events than a file of this size can say");
    }
  }
  const Value* find(const Value& dict, std::string_view name) const {
    if (pickle_.entries(dict).size() > kMostNames) {
      fail("a dictionary has more than 64 entries where ['" + std::string(name) + "'] is expected");
    }
    return pickle_.find(dict, name);
  }
  template <typename Path>
  std::uint64_t number(const Value& dict, const char* name, Path path) const {
    const Value* const value = find(dict, name);
    const auto read = value == nullptr ? std::nullopt : natural(*value);
    if (!read) {
      fail(path() + "['" + name + "'] is " +
           (value == nullptr ? "not there" : "no number of 64 bits"));
    }
    return *read;
  }
  // Of something at `address`.
  template <typename Path>
  std::uint64_t size(const Value& dict, const char* name, std::uint64_t address, Path path) const {
    const std::uint64_t bytes = number(dict, name, path);
    if (bytes > ~std::uint64_t{0} - address) {
      fail(path() + "['" + name + "'] goes beyond the last address");
    }
    return bytes;
  }
  std::uint64_t number_or(const Value& dict, const char* name, std::uint64_t otherwise) const {
    const Value* const value = find(dict, name);
    return value == nullptr ? otherwise : natural(*value).value_or(otherwise);
  }

  void take_segments(const Value& segments, const std::string& path) {
    std::size_t index = 0;
    for (const Value& segment : list(&segments, [&] { return path; })) {
      take_segment(segment, [&, index] { return at(path, index); });
      ++index;
    }
  }

  template <typename Path>
  void take_segment(const Value& segment, Path path) {
    check_dict(segment, path);
    const std::uint64_t number_of_device = number(segment, "device", path);
    if (number_of_device >= kMostDevices) {
      fail(path() + "['device'] is no number below 256");
    }
    History& device = devices_[number_of_device];
    std::uint64_t address = number(segment, "address", path);
    device.segments.push_back({address, size(segment, "total_size", address, path), 0, kNone});
    std::size_t index = 0;
    const auto of_block = [&] { return at(path() + "['blocks']", index); };
    for (const Value& block :
         list(find(segment, "blocks"), [&] { return path() + "['blocks']"; })) {
      check_dict(block, of_block);
      const std::uint64_t bytes = size(block, "size", address, of_block);
      const std::string_view state = state_of(block);
      if (state == "active_allocated" || state == "active_pending_free" ||
          state == "active_awaiting_free") {
        const std::uint64_t requested = std::min(bytes, number_or(block, "requested_size", bytes));
        device.blocks.push_back({number_or(block, "address", address), requested,
                                 as_padding(bytes - requested), stack_of_block(block)});
      }
      address += bytes;
      ++index;
    }
  }

  std::string_view state_of(const Value& block) const {
    const Value* const state = find(block, "state");
    return state == nullptr ? std::string_view() : pickle_.text(*state);
  }

  std::uint32_t stack_of_block(const Value& block) {
    const Value* const history = find(block, "history");
    if (history != nullptr && !pickle_.items(*history).empty()) {
      return stack_of(pickle_.items(*history)[0]);
    }
    return stack_of(block);
  }

  void take_traces(const Value& traces) {
    std::size_t device = 0;
    const auto of_device = [&] { return at("['device_traces']", device); };
    for (const Value& trace : list(&traces, [] { return std::string("['device_traces']"); })) {
      if (device >= kMostDevices) {
        fail(of_device() + ": there are more than 256 devices");
      }
      const auto& entries = list(&trace, of_device);
      if (!entries.empty()) {
        take_trace(entries, devices_[device].entries, of_device);
      }
      ++device;
    }
  }

  template <typename Path>
  void take_trace(const std::vector<Value>& values, std::vector<Entry>& entries, Path of_device) {
    entries.reserve(values.size());
    std::size_t index = 0;
    const auto of_entry = [&] { return at(of_device(), index); };
    for (const Value& value : values) {
      check_dict(value, of_entry);
      Entry entry;
      entry.kind = kind_of(value, of_entry);
      if (entry.kind != Kind::kNothing) {
        entry.time_us = number_or(value, "time_us", 0);
        if (!entries.empty()) {
          entry.time_us = std::max(entry.time_us, entries.back().time_us);
        }
        if (entry.kind == Kind::kOutOfMemory) {
          entry.free_bytes = number_or(value, "device_free", 0);
        } else {
          entry.address = number(value, "addr", of_entry);
        }
        entry.bytes = size(value, "size", entry.address, of_entry);
        entry.stack = entry.kind == Kind::kAllocate ? stack_of(value) : kNone;
        entries.push_back(entry);
      }
      ++index;
    }
  }

  // kNothing for what is of no interest, or came after this was written.
  template <typename Path>
  Kind kind_of(const Value& entry, Path path) const {
    static constexpr std::pair<std::string_view, Kind> kKinds[] = {
        {"alloc", Kind::kAllocate},         {"free_requested", Kind::kRetire},
        {"free_completed", Kind::kReclaim}, {"segment_alloc", Kind::kGrow},
        {"segment_free", Kind::kShrink},    {"segment_map", Kind::kGrow},
        {"segment_unmap", Kind::kShrink},   {"oom", Kind::kOutOfMemory},
    };
    const Value* const action = find(entry, "action");
    if (action == nullptr || action->type != Pickle::Type::kText) {
      fail(path() + "['action'] is no text");
    }
    const std::string_view name = pickle_.text(*action);
    for (const auto& [known, kind] : kKinds) {
      if (known == name) {
        return kind;
      }
    }
    return Kind::kNothing;
  }

  std::uint32_t stack_of(const Value& dict) {
    const Value* const frames = find(dict, "frames");
    if (frames == nullptr || pickle_.items(*frames).empty()) {
      return kNone;
    }
    const auto [known, is_new] = stacks_of_lists_.try_emplace(frames->index, kNone);
    if (is_new) {
      known->second = stack_of_frames(pickle_.items(*frames));
    }
    return known->second;
  }

  // Other lists may have the same frames, which are mostly the same dictionaries.
  std::uint32_t stack_of_frames(const std::vector<Value>& frames) {
    std::string key;
    for (const Value& frame : frames) {
      key.append(reinterpret_cast<const char*>(&frame.index), sizeof(frame.index));
    }
    const auto [known, is_new] =
        stacks_.try_emplace(key, static_cast<std::uint32_t>(recording_.stacks.size()));
    if (is_new) {
      std::vector<std::string>& stack = recording_.stacks.emplace_back();
      for (const Value& frame : frames) {
        stack.push_back(text_of(frame));
        stack_text_ += stack.back().size() + sizeof(std::string);
        if (stack_text_ > kMostStackText) {
          fail("the stacks take more than 1 GiB");
        }
      }
    }
    return known->second;
  }

  std::string text_of(const Value& frame) const {
    const auto text = [&](const char* name) {
      const Value* const value = find(frame, name);
      return value == nullptr ? std::string() : std::string(pickle_.text(*value));
    };
    const std::string file = text("filename");
    const std::uint64_t line = number_or(frame, "line", 0);
    return text("name") + (file.empty() || file == "??" ? "" : " (" + file) +
           (file.empty() || file == "??" ? ""
            : line == 0                  ? ")"
                                         : ":" + std::to_string(line) + ")");
  }

  const Input& input_;
  const Pickle& pickle_;
  Recording& recording_;
  Histories devices_;
  std::unordered_map<std::string, std::uint32_t> stacks_;  // by their frames
  std::unordered_map<std::uint32_t, std::uint32_t> stacks_of_lists_;
  std::uint64_t stack_text_ = 0;
  std::uint64_t dicts_ = 0;
};

// Addresses that are in use, in pieces that do not overlap.
class Pieces {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    remove(begin, end);
    if (begin < end) {
      ends_[begin] = end;
    }
  }
  void remove(std::uint64_t begin, std::uint64_t end) {
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
  const std::map<std::uint64_t, std::uint64_t>& ends() const { return ends_; }

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // by begin
};

// Makes the events of one device of its history.
class EventMaker {
 public:
  EventMaker(const History& history, std::uint32_t place, std::uint64_t first_us,
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
      add_event(Kind::kGrow,
                {.address = begin, .bytes = end - begin, .padding = 0, .stack = kNone});
    }
  }

  void add_blocks_of_before() {
    std::unordered_set<std::uint64_t> seen;
    for (const Entry& entry : history_.entries) {
      const bool of_block = entry.kind == Kind::kAllocate || entry.kind == Kind::kRetire ||
                            entry.kind == Kind::kReclaim;
      if (of_block && seen.insert(entry.address).second && entry.kind != Kind::kAllocate) {
        allocate({entry.address, entry.bytes, 0, kNone});
      }
    }
    for (const Extent& block : history_.blocks) {
      if (seen.insert(block.address).second) {
        allocate(block);
      }
    }
  }

  void add(const Entry& entry) {
    const Extent extent{entry.address, entry.bytes, 0, entry.stack};
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
        add_event(entry.kind, {entry.bytes, 0, 0, kNone});
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
      add_event(Kind::kRetire, {entry.address, block->second.bytes, 0, kNone});
    }
  }

  void reclaim(const Entry& entry) {
    if (const auto block = live_.find(entry.address); block != live_.end()) {
      end_block(block, block->second.retired ? Kind::kReclaim : Kind::kFree);
    }
  }

  void end_block(std::unordered_map<std::uint64_t, Block>::iterator block, Kind kind) {
    add_event(kind, {block->first, block->second.bytes, 0, kNone});
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

  const History& history_;
  const std::uint32_t place_;
  const std::uint64_t first_us_;  // of all devices; 0: there are no times
  std::vector<std::string>& texts_;
  std::size_t index_ = 0;  // of the entry that is looked at
  std::vector<Event> events_;
  std::unordered_map<std::uint64_t, Block> live_;
};

std::uint64_t first_us_of(const Histories& histories) {
  std::uint64_t first = ~std::uint64_t{0};
  for (const auto& [number, history] : histories) {
    if (!history.entries.empty()) {
      first = std::min(first, history.entries.front().time_us);
    }
  }
  return first == ~std::uint64_t{0} ? 0 : first;
}

}  // namespace

Recording read_pytorch_snapshot(Input& input) {
  Recording recording;
  recording.path = input.name();
  recording.format = "PyTorch snapshot";
  recording.callers.emplace_back();
  recording.threads.emplace_back();
  Histories histories;
  {
    const Pickle pickle(input);
    histories = SnapshotReader(input, pickle, recording).read();
  }
  const std::uint64_t first_us = first_us_of(histories);
  recording.start_unix_ns = std::min(first_us, ~std::uint64_t{0} / 1000) * 1000;
  for (auto& [number, history] : histories) {
    recording.devices.emplace_back().number = static_cast<std::uint32_t>(number);
    const auto place = static_cast<std::uint32_t>(recording.places.size());
    recording.places.push_back({static_cast<std::uint32_t>(number), trace::Memory::kArena, 0});
    const std::vector<Event> events = EventMaker(history, place, first_us, recording.texts).make();
    const auto middle = static_cast<std::ptrdiff_t>(recording.events.size());
    recording.events.insert(recording.events.end(), events.begin(), events.end());
    std::ranges::inplace_merge(recording.events, recording.events.begin() + middle, {},
                               &Event::time_ns);
    history = {};
  }
  return recording;
}

}  // namespace cubfc::recordings
