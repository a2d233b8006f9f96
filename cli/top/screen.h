// Makes what stands on the screen while `cubfc top` runs, and changes it when keys are pressed.
// Writes nothing to the terminal itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/top/keys.h"
#include "cli/top/look.h"
#include "cli/top/table.h"
#include "cli/top/terminal.h"

namespace cubfc::cli::top {

class Screen {
 public:
  // `plain`: no attributes (NO_COLOR), just marks.
  Screen(std::vector<int> pids, bool plain) : pids_(std::move(pids)), plain_(plain) {}

  // Takes a new look, which must stay valid until the next one. Finds the selected process again,
  // and asks it for its map if its details are shown.
  void show(Look& look);
  // Does what the key asks for. False: `cubfc top` is to end.
  bool press(const KeyPress& key);
  // The whole screen, for Terminal::draw().
  std::string drawn(const Size& size);

 private:
  struct Place {
    std::string path;
    std::size_t device = 0;
    bool operator==(const Place&) const = default;
  };
  struct MapRequest {
    Place of;
    std::uint32_t drawn_before;
    std::chrono::steady_clock::time_point when;
    bool could_ask;
    std::optional<std::chrono::steady_clock::time_point> came;
  };
  // Lines of which a part is on the screen.
  struct Scrolled {
    std::size_t first = 0;  // the first line that is shown
    std::size_t room = 10;  // how many had room when the screen was last drawn
    std::size_t all = 0;    // how many lines there are
  };

  static Place place_of(const Row& row) { return {row.process->path, row.place}; }
  const Row* selected_row() const { return rows_.empty() ? nullptr : rows_[selected_]; }
  void arrange();
  // Keys.
  bool press_character(char character);
  void move_by(std::ptrdiff_t rows);
  void scroll_details_by(std::ptrdiff_t lines);
  void move_or_scroll(Press press);
  void set_details(bool shown);
  void sort_by_next(bool forwards);
  void leave_page_of_help();
  void ask_for_map();
  MapState map_state() const;
  // Parts of drawn().
  std::vector<Line> body(std::size_t width, std::size_t lines);
  std::vector<Line> list_part(std::size_t width, std::size_t lines);
  std::size_t lines_of_list(std::size_t width, std::size_t lines, std::size_t of_details) const;
  void scroll_to_selected(const std::vector<Line>& all);
  std::string first_line() const;
  std::string last_line() const;

  const std::vector<int> pids_;
  const bool plain_;
  Look* look_ = nullptr;
  std::vector<Row*> rows_;  // as they stand on the screen
  Order order_;
  Widths widths_{};  // of each column the largest that any look has needed
  std::optional<Place> selection_;
  std::size_t selected_ = 0;
  Scrolled list_;
  Scrolled details_;
  Scrolled help_;
  bool has_details_ = false;
  bool has_help_ = false;
  std::optional<MapRequest> map_;
  std::string note_;  // shown until the next key
};

}  // namespace cubfc::cli::top
