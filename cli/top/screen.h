// What stands on the screen while `cubfc top` runs, and what keys change of it. Knows nothing of
// how it gets there.
#pragma once

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

  // A new look, which stays where it is until the next one: finds the selected process again, and
  // asks it for its map where its details are shown.
  void show(Look& look);
  // False: that is the end.
  bool press(const KeyPress& key);
  // As Terminal::draw() takes it.
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

  static Place place_of(const Row& row) { return {row.process->path, row.place}; }
  const Row* selected_row() const { return rows_.empty() ? nullptr : rows_[selected_]; }
  void arrange();
  void move_by(std::ptrdiff_t rows);
  void sort_by_next(bool forwards);
  void ask_for_map();
  MapState map_state() const;

  std::string styled(const Line& line, std::size_t width) const;
  std::vector<Line> body(std::size_t width, std::size_t lines);
  std::string first_line() const;
  std::string last_line() const;

  const std::vector<int> pids_;
  const bool plain_;
  Look* look_ = nullptr;
  std::vector<Row*> rows_;  // as they stand on the screen
  Order order_;
  std::optional<Place> selection_;
  std::size_t selected_ = 0;
  std::size_t scrolled_ = 0;  // lines of the table above the screen
  std::size_t page_ = 10;     // rows
  bool details_ = false;
  std::optional<MapRequest> map_;
  std::string note_;  // until the next key
};

}  // namespace cubfc::cli::top
