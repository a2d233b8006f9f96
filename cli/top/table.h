// The look as lines of text: for each device a header and a table of its processes; and what more
// is known of one of them. Knows nothing of terminals but their width.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/look.h"

namespace cubfc::cli::top {

inline constexpr std::size_t kAnyWidth = ~std::size_t{0};

struct Line {
  enum class Kind { kPlain, kGpu, kTitles, kRow, kProblem } kind = Kind::kPlain;
  std::string text;
  const Row* row = nullptr;  // of kRow
};

// At most `width` columns: where there are too few, the columns that say least are left out, and
// texts are cut. `sorted_by`: its title is marked.
std::vector<Line> table(const Look& look, std::size_t width, const Order* sorted_by);

// The files of figures that cannot be read.
std::vector<Line> problems(const Look& look, std::size_t width);
// What to check when no process is there, or none of those that are asked for.
std::vector<Line> nothing_there(const Look& look, const std::vector<int>& pids);

// What has come of asking a process for its map.
enum class Map { kNotAsked, kCannotAsk, kAsked, kCame, kLate };
struct MapState {
  Map state = Map::kNotAsked;
  std::optional<std::chrono::seconds> age;  // of the map that is there; nothing: there is none
};

// One process's memory of one device: the map of its arenas, kinds of memory, callers.
std::vector<Line> details(const Row& row, const MapState& map, std::size_t width);

// For people: "in use".
std::string_view name_of(Key key);

}  // namespace cubfc::cli::top
