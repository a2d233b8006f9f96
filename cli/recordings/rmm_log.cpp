#include "cli/recordings/rmm_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cubfc::recordings {
namespace {

constexpr std::size_t kLongestRow = std::size_t{64} << 10;
constexpr std::size_t kMostFields = 32;
constexpr std::uint64_t kDayNs = 86'400'000'000'000;

// What a column says. kNames: the names that columns have in the two layouts.
enum class Column : std::uint8_t { kThread, kTime, kAction, kPointer, kSize, kDevice, kColumns };
constexpr std::size_t kColumns = static_cast<std::size_t>(Column::kColumns);

struct ColumnName {
  std::string_view name;
  Column column;
};
constexpr std::array kNames{
    ColumnName{"Thread", Column::kThread},     ColumnName{"Time", Column::kTime},
    ColumnName{"Action", Column::kAction},     ColumnName{"Pointer", Column::kPointer},
    ColumnName{"Size", Column::kSize},         ColumnName{"Event Type", Column::kAction},
    ColumnName{"Device ID", Column::kDevice},  ColumnName{"Address", Column::kPointer},
    ColumnName{"Size (bytes)", Column::kSize}, ColumnName{"Start", Column::kTime},
};

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

std::optional<std::uint64_t> number(std::string_view text, int base) {
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) {
    text.remove_prefix(2);
  }
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> pointer(std::string_view text) {
  return text == "(nil)" || text.empty() ? std::optional<std::uint64_t>(0) : number(text, 16);
}

// Seconds, which may have decimals.
std::optional<std::uint64_t> seconds_in_ns(std::string_view text) {
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seconds, std::chars_format::general);
  if (error != std::errc() || stop != end || !(seconds >= 0 && seconds < 1e10)) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(seconds * 1e9);
}

// "15:47:02.841961" or "15:47:02:841961".
std::optional<std::uint64_t> time_of_day_in_ns(std::string_view text) {
  constexpr std::array<std::uint64_t, 4> kUnits{3'600'000'000'000, 60'000'000'000, 1'000'000'000,
                                                1'000};
  constexpr std::array<std::uint64_t, 4> kBounds{24, 60, 61, 1'000'000};
  std::uint64_t ns = 0;
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    const std::size_t end = std::min(text.find_first_of(i == 2 ? ".:" : ":"), text.size());
    const auto part = number(text.substr(0, end), 10);
    if (!part || *part >= kBounds.at(i) || (i == 3 && end != 6)) {
      return std::nullopt;
    }
    ns += *part * kUnits.at(i);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (text.empty() && i >= 2) {
      return ns;
    }
  }
  return std::nullopt;
}

class RmmLogReader {
 public:
  explicit RmmLogReader(Input& input) : input_(input) {}

  Recording read() {
    recording_.path = input_.name();
    recording_.format = "RMM log";
    recording_.callers.emplace_back();
    recording_.threads.emplace_back();
    std::string_view text;
    while (input_.line(text, kLongestRow)) {
      ++line_;
      if (trimmed(text).empty()) {
        continue;
      }
      split(text);
      if (is_header()) {
        end_log();
        take_header();
      } else if (input_.is_without_end() && line_ > 1) {
        take_last_row();
      } else {
        take_row();
      }
    }
    return std::move(recording_);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const { input_.fail_in_line(line_, text); }

  // The 32nd field is all of the rest of the row, with its commas: a row that is no log's may have
  // any number.
  void split(std::string_view text) {
    fields_.clear();
    for (;;) {
      const std::size_t comma = fields_.size() + 1 < kMostFields ? text.find(',') : text.npos;
      fields_.push_back(trimmed(text.substr(0, comma)));
      if (comma == std::string_view::npos) {
        return;
      }
      text.remove_prefix(comma + 1);
    }
  }

  bool is_header() const {
    return std::ranges::any_of(
        fields_, [](std::string_view field) { return field == "Action" || field == "Event Type"; });
  }

  // Called for each line of names. Rows before it are those of another process's log, all of whose
  // memory is gone.
  void end_log() {
    for (const auto& [device, place] : places_) {
      Event event;
      event.kind = trace::Kind::kEndPlace;
      event.time_ns = last_ns_ - first_ns_.value_or(last_ns_);
      event.place = place;
      recording_.events.push_back(event);
    }
    live_.clear();
  }

  // Takes the last row, if it has no end: a process that was killed may have written only a part of
  // the row, which is then left out.
  void take_last_row() {
    const std::size_t before = recording_.events.size();
    recording_.is_cut = fields_.size() < columns_;
    if (recording_.is_cut) {
      return;
    }
    try {
      take_row();
    } catch (const BadRecording&) {
      recording_.events.resize(before);
      recording_.is_cut = true;
    }
  }

  void take_header() {
    columns_ = fields_.size();
    where_.fill(-1);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      for (const ColumnName& known : kNames) {
        if (known.name == fields_[i] && position(known.column) < 0) {
          where_.at(static_cast<std::size_t>(known.column)) = static_cast<int>(i);
        }
      }
    }
    for (const auto& [column, name] :
         {std::pair{Column::kAction, "Action"}, std::pair{Column::kPointer, "Pointer"},
          std::pair{Column::kSize, "Size"}}) {
      if (position(column) < 0) {
        fail("no column is named " + std::string(name));
      }
    }
  }

  int position(Column column) const { return where_.at(static_cast<std::size_t>(column)); }

  // The field in a column; empty if there is no such column.
  std::string_view field(Column column, const char* what) const {
    const int at = position(column);
    if (at >= 0 && static_cast<std::size_t>(at) >= fields_.size()) {
      fail("the line ends before the " + std::string(what));
    }
    return at < 0 ? std::string_view() : fields_[static_cast<std::size_t>(at)];
  }

  void take_row() {
    const std::string_view action = field(Column::kAction, "action");
    Event event;
    event.time_ns = time();
    event.thread = thread();
    event.place = place();
    if (const auto bytes = number(field(Column::kSize, "size"), 10)) {
      event.bytes = *bytes;
    } else {
      fail("the size is not a number");
    }
    if (const auto address = pointer(field(Column::kPointer, "pointer"))) {
      event.address = *address;
    } else {
      fail("the pointer is not a hexadecimal number");
    }
    if (action == "allocate" || action == "Alloc") {
      allocate(event);
    } else if (action == "free" || action == "Free") {
      free(event);
    } else if (action == "allocate failure") {
      fail_to_allocate(event);
    } else {
      fail("the action is not allocate, free or allocate failure");
    }
  }

  // A request for 0 bytes is left out: it may get any address, also a live block's. If another
  // block is live at the address, its free is missing in the log; replay and report count that.
  void allocate(Event event) {
    if (event.address == 0 || event.bytes == 0) {
      return;
    }
    live_[event.address] = event.bytes;
    event.kind = trace::Kind::kAllocate;
    recording_.events.push_back(event);
  }

  void free(Event event) {
    if (event.address == 0) {
      return;
    }
    if (const auto block = live_.find(event.address); block != live_.end()) {
      event.bytes = block->second;
      live_.erase(block);
    } else if (event.bytes == 0) {
      return;
    }
    event.kind = trace::Kind::kFree;
    recording_.events.push_back(event);
  }

  void fail_to_allocate(Event event) {
    event.kind = trace::Kind::kOutOfMemory;
    event.address = std::exchange(event.bytes, 0);
    event.text = static_cast<std::uint32_t>(recording_.texts.size());
    recording_.texts.push_back("RMM: an allocation of " + std::to_string(event.address) +
                               " bytes failed");
    recording_.events.push_back(event);
  }

  // The row's time since the first row. A time of day that goes back by more than half a day is one
  // of the next day.
  std::uint64_t time() {
    const std::string_view text = field(Column::kTime, "time");
    if (position(Column::kTime) < 0) {
      return recording_.events.size();
    }
    const bool of_day = text.find(':') != std::string_view::npos;
    const auto ns = of_day ? time_of_day_in_ns(text) : seconds_in_ns(text);
    if (!ns) {
      fail("the time is neither hours:minutes:seconds nor seconds");
    }
    std::uint64_t now = *ns + days_ns_;
    if (of_day && now + kDayNs / 2 < last_ns_) {
      days_ns_ += kDayNs;
      now += kDayNs;
    }
    first_ns_ = first_ns_.value_or(now);
    last_ns_ = std::max({now, last_ns_, *first_ns_});
    return last_ns_ - *first_ns_;
  }

  std::uint16_t thread() {
    const std::string_view text = field(Column::kThread, "thread");
    if (position(Column::kThread) < 0) {
      return 0;
    }
    const auto id = number(text, 10);
    if (!id) {
      fail("the thread is not a number");
    }
    const std::size_t index = std::min<std::size_t>(recording_.threads.size(), 65535);
    const auto [known, is_new] = threads_.try_emplace(*id, static_cast<std::uint16_t>(index));
    if (is_new && index == recording_.threads.size()) {
      recording_.threads.push_back({*id, ""});
    }
    return known->second;
  }

  std::uint32_t place() {
    std::uint64_t device = 0;
    if (position(Column::kDevice) >= 0) {
      const auto read = number(field(Column::kDevice, "device"), 10);
      if (!read || *read > 255) {
        fail("the device is not a number below 256");
      }
      device = *read;
    }
    const auto [known, is_new] =
        places_.try_emplace(device, static_cast<std::uint32_t>(recording_.places.size()));
    if (is_new) {
      recording_.places.push_back({static_cast<std::uint32_t>(device), trace::Memory::kArena, 0});
    }
    return known->second;
  }

  Input& input_;
  Recording recording_;
  std::uint64_t line_ = 0;
  std::size_t columns_ = 5;                             // in a row
  std::array<int, kColumns> where_{0, 1, 2, 3, 4, -1};  // -1: there is no such column
  std::vector<std::string_view> fields_;
  std::optional<std::uint64_t> first_ns_;
  std::uint64_t last_ns_ = 0;
  std::uint64_t days_ns_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> live_;  // bytes by address
  std::unordered_map<std::uint64_t, std::uint16_t> threads_;
  std::unordered_map<std::uint64_t, std::uint32_t> places_;
};

}  // namespace

bool is_rmm_log(std::string_view beginning) {
  const std::string_view line = beginning.substr(0, beginning.find_first_of("\r\n"));
  const auto has = [line](std::string_view word) { return line.find(word) != line.npos; };
  return has("Action,") || has("Event Type,") || has(",allocate,") || has(",free,") ||
         has(",allocate failure,");
}

Recording read_rmm_log(Input& input) {
  return RmmLogReader(input).read();
}

}  // namespace cubfc::recordings
