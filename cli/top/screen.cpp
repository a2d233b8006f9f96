#include "cli/top/screen.h"

#include <algorithm>

namespace cubfc::cli::top {
namespace {

// How long a map may take to come: a thread of cubfc's in the process looks for requests once a
// second.
constexpr std::chrono::seconds kMapPatience{3};

}  // namespace

void Screen::show(Look& look) {
  look_ = &look;
  widen(widths_, wanted_widths(look));
  arrange();
  if (has_details_) {
    ask_for_map();
  }
}

// Sorts the rows and finds the selected one again; if it is gone, selects the one in its place.
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
  if (selection_ && has_details_) {
    note_ = "the process has ended";
    has_details_ = false;
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
  if (has_details_) {
    details_.first = 0;
    ask_for_map();
  }
}

void Screen::scroll_details_by(std::ptrdiff_t lines) {
  const auto most =
      static_cast<std::ptrdiff_t>(details_.all - std::min(details_.all, details_.room));
  details_.first = static_cast<std::size_t>(
      std::clamp(static_cast<std::ptrdiff_t>(details_.first) + lines, std::ptrdiff_t{0}, most));
}

// Scrolls the details if they are shown; else moves the selection.
void Screen::move_or_scroll(Press press) {
  const Scrolled& what = has_details_ ? details_ : list_;
  const auto page = static_cast<std::ptrdiff_t>(std::max<std::size_t>(what.room, 2) - 1);
  const auto all = static_cast<std::ptrdiff_t>(has_details_ ? details_.all : rows_.size());
  const std::ptrdiff_t by = press == Press::kUp         ? -1
                            : press == Press::kDown     ? 1
                            : press == Press::kPageUp   ? -page
                            : press == Press::kPageDown ? page
                            : press == Press::kHome     ? -all
                                                        : all;
  if (has_details_) {
    scroll_details_by(by);
  } else {
    move_by(by);
  }
}

void Screen::set_details(bool shown) {
  has_details_ = shown && !rows_.empty();
  details_.first = 0;
  if (has_details_) {
    ask_for_map();
  }
}

// Sorts by the next column that at least one look so far has needed, even if the terminal has no
// room for the column.
void Screen::sort_by_next(bool forwards) {
  do {
    const auto now = static_cast<std::size_t>(order_.key);
    order_.key = static_cast<Key>((now + (forwards ? 1 : kKeys - 1)) % kKeys);
  } while (widths_.at(static_cast<std::size_t>(order_.key)) == 0);
  arrange();
}

// Goes to the next part of the help, if a small terminal has not shown all; else leaves the help.
void Screen::leave_page_of_help() {
  help_.first += help_.room;
  has_help_ = help_.first < help_.all;
}

bool Screen::press(const KeyPress& key) {
  note_.clear();
  if (has_help_) {
    leave_page_of_help();
    return true;
  }
  switch (key.press) {
    case Press::kUp:
    case Press::kDown:
    case Press::kPageUp:
    case Press::kPageDown:
    case Press::kHome:
    case Press::kEnd:
      move_or_scroll(key.press);
      break;
    case Press::kEnter:
      set_details(!has_details_);
      break;
    case Press::kEscape:
      set_details(false);
      break;
    case Press::kCharacter:
      return press_character(key.character);
    case Press::kOther:
      break;
  }
  return true;
}

bool Screen::press_character(char character) {
  switch (character) {
    case 'q':
    case 'Q':
      return false;
    case 'k':
      move_or_scroll(Press::kUp);
      break;
    case 'j':
      move_or_scroll(Press::kDown);
      break;
    case 'n':
      move_by(1);
      break;
    case 'p':
      move_by(-1);
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
    case '?':
      has_help_ = true;
      help_.first = 0;
      break;
    default:
      break;
  }
  return true;
}

// Asks the selected process for a map, and for the next one as soon as a map has come. Does not ask
// again while it waits for an answer.
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

}  // namespace cubfc::cli::top
