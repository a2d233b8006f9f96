#include "cli/top/screen.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "cli/report/wording.h"
#include "cli/top/width.h"

namespace cubfc::cli::top {
namespace {

// A thread of cubfc's looks once a second.
constexpr std::chrono::seconds kMapPatience{3};
constexpr std::size_t kLeastTableLines = 3;

std::string counted(std::size_t count, const std::string& what, const std::string& plural) {
  return report::count_text(count) + " " + (count == 1 ? what : plural);
}

}  // namespace

void Screen::show(Look& look) {
  look_ = &look;
  arrange();
  if (details_) {
    ask_for_map();
  }
}

// Sorts, and finds the selected row again; when it is gone, the one that has its place now.
void Screen::arrange() {
  sort(*look_, order_);
  rows_.clear();
  for (Gpu& gpu : look_->gpus) {
    for (Row& row : gpu.rows) {
      rows_.push_back(&row);
    }
  }
  const auto found = std::ranges::find_if(
      rows_, [&](const Row* row) { return selection_ && place_of(*row) == *selection_; });
  if (found != rows_.end()) {
    selected_ = static_cast<std::size_t>(found - rows_.begin());
    return;
  }
  if (selection_ && details_) {
    note_ = "the process has ended";
    details_ = false;
  }
  selected_ = std::min(selected_, rows_.empty() ? 0 : rows_.size() - 1);
  selection_ = rows_.empty() ? std::nullopt : std::optional(place_of(*rows_[selected_]));
}

void Screen::move_by(std::ptrdiff_t rows) {
  if (rows_.empty()) {
    return;
  }
  const auto last = static_cast<std::ptrdiff_t>(rows_.size()) - 1;
  const std::ptrdiff_t wanted =
      std::clamp(static_cast<std::ptrdiff_t>(selected_) + rows, std::ptrdiff_t{0}, last);
  selected_ = static_cast<std::size_t>(wanted);
  selection_ = place_of(*rows_[selected_]);
  if (details_) {
    ask_for_map();
  }
}

void Screen::sort_by_next(bool forwards) {
  const auto now = static_cast<std::size_t>(order_.key);
  order_.key = static_cast<Key>((now + (forwards ? 1 : kKeys - 1)) % kKeys);
  arrange();
}

bool Screen::press(const KeyPress& key) {
  note_.clear();
  const auto page = static_cast<std::ptrdiff_t>(page_);
  const auto all = static_cast<std::ptrdiff_t>(rows_.size());
  switch (key.press) {
    case Press::kUp:
      move_by(-1);
      break;
    case Press::kDown:
      move_by(1);
      break;
    case Press::kPageUp:
      move_by(-page);
      break;
    case Press::kPageDown:
      move_by(page);
      break;
    case Press::kHome:
      move_by(-all);
      break;
    case Press::kEnd:
      move_by(all);
      break;
    case Press::kEnter:
      details_ = !details_ && !rows_.empty();
      if (details_) {
        ask_for_map();
      }
      break;
    case Press::kEscape:
      details_ = false;
      break;
    case Press::kCharacter:
      switch (key.character) {
        case 'q':
        case 'Q':
          return false;
        case 'k':
          move_by(-1);
          break;
        case 'j':
          move_by(1);
          break;
        case 's':
        case '>':
          sort_by_next(true);
          break;
        case 'S':
        case '<':
          sort_by_next(false);
          break;
        case 'r':
          order_.reversed = !order_.reversed;
          arrange();
          break;
        default:
          break;
      }
      break;
    case Press::kOther:
      break;
  }
  return true;
}

// A new one each time when one has come; who has not answered is not asked again.
void Screen::ask_for_map() {
  const Row& row = *rows_[selected_];
  const std::uint32_t drawn = row.device().map_drawn.load();
  std::optional<std::chrono::steady_clock::time_point> came;
  if (map_ && map_->of == place_of(row)) {
    if (drawn == map_->drawn_before && map_->could_ask) {
      return;
    }
    came = drawn == map_->drawn_before ? map_->came : std::optional(look_->when);
  }
  const bool could_ask = live::ask_for_map(*row.process, row.place);
  map_ = {place_of(row), drawn, look_->when, could_ask, came};
}

MapState Screen::map_state() const {
  if (!map_) {
    return {};
  }
  MapState state;
  if (map_->came) {
    state.age = std::chrono::duration_cast<std::chrono::seconds>(look_->when - *map_->came);
  }
  if (!map_->could_ask) {
    state.state = Map::kCannotAsk;
  } else if (look_->when - map_->when > kMapPatience) {
    state.state = Map::kLate;
  } else {
    state.state = map_->came ? Map::kCame : Map::kAsked;
  }
  return state;
}

std::string Screen::first_line() const {
  const auto seconds = static_cast<std::time_t>(look_->unix_ns / 1'000'000'000);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 16> clock{};
  std::strftime(clock.data(), clock.size(), "%H:%M:%S", &local);
  return std::string("cubfc top  ") + clock.data() + "  " +
         counted(look_->processes.all.size(), "process", "processes") + " on " +
         counted(look_->gpus.size(), "GPU", "GPUs") + ", sorted by " +
         std::string(name_of(order_.key)) + (order_.reversed ? ", reversed" : "");
}

std::string Screen::last_line() const {
  return note_.empty()
             ? "q quit  up/down select  Enter " +
                   std::string(details_ ? "close" : "map and callers") + "  < > sort  r reverse"
             : note_;
}

// The table, or the part of it around the selected row, and below it the details.
std::vector<Line> Screen::body(std::size_t width, std::size_t lines) {
  const std::vector<Line> nothing = nothing_there(*look_, pids_);
  std::vector<Line> all = nothing.empty() ? table(*look_, width, &order_) : nothing;
  const std::vector<Line> wrong = problems(*look_, width);
  all.insert(all.end(), wrong.begin(), wrong.end());
  const Row* const row = selected_row();
  std::vector<Line> more;
  if (details_ && row != nullptr) {
    more = details(*row, map_state(), width);
    more.insert(more.begin(), Line{});
  }
  const std::size_t half = std::max(lines / 2, kLeastTableLines);
  const std::size_t left_over = lines > more.size() ? lines - more.size() : 0;
  const std::size_t room = std::min({all.size(), std::max(half, left_over), lines});

  const auto selected = static_cast<std::size_t>(
      std::ranges::find_if(all,
                           [&](const Line& each) { return each.row == row && row != nullptr; }) -
      all.begin());
  if (selected < all.size()) {
    // With its device's header where it is the first row.
    const std::size_t from = selected >= 2 && selected <= room ? 0 : selected;
    scrolled_ = std::min(scrolled_, from);
    scrolled_ = std::max(scrolled_, selected + 1 > room ? selected + 1 - room : 0);
  }
  scrolled_ = std::min(scrolled_, all.size() - room);
  page_ = std::max<std::size_t>(room, 2) - 1;

  const auto first = all.begin() + static_cast<std::ptrdiff_t>(scrolled_);
  std::vector<Line> shown_lines(first, first + static_cast<std::ptrdiff_t>(room));
  more.resize(std::min(more.size(), lines - room));
  shown_lines.insert(shown_lines.end(), more.begin(), more.end());
  return shown_lines;
}

// Who is selected is marked, and not by its look alone.
std::string Screen::styled(const Line& line, std::size_t width) const {
  const bool selected = line.row != nullptr && line.row == selected_row();
  std::string text = cut(line.text, width);
  if (selected && !text.empty()) {
    text[0] = '>';
  }
  if (plain_) {
    return text;
  }
  if (selected) {
    return "\x1b[7m" + left(text, width);
  }
  switch (line.kind) {
    case Line::Kind::kGpu:
      return "\x1b[1m" + text;
    case Line::Kind::kTitles:
      return "\x1b[2m" + text;
    case Line::Kind::kProblem:
      return "\x1b[31m" + text;
    default:
      return text;
  }
}

std::string Screen::drawn(const Size& size) {
  std::vector<Line> lines{{Line::Kind::kPlain, first_line()}};
  if (size.lines > 2) {
    const std::vector<Line> inner = body(size.columns, size.lines - 2);
    lines.insert(lines.end(), inner.begin(), inner.end());
    lines.resize(size.lines - 1);
  }
  if (size.lines > 1) {
    lines.push_back({Line::Kind::kTitles, last_line()});
  }
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += (i == 0 ? "" : "\n") + styled(lines[i], size.columns);
  }
  return text;
}

}  // namespace cubfc::cli::top
