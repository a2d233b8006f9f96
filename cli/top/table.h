// The look as lines of text: for each device a header, a bar and its processes; and what more is
// known of one of them. Knows nothing of terminals but their width.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/top/columns.h"
#include "cli/top/line.h"
#include "cli/top/look.h"

namespace cubfc::cli::top {

inline constexpr std::size_t kAnyWidth = ~std::size_t{0};

// At most `width` columns: where there are too few, the columns that say least are left out, and
// texts are cut. With the titles of the columns for each device.
std::vector<Line> table(const Look& look, std::size_t width);

// The same without titles, for a screen that has them above; `brief`: where there are few lines.
std::vector<Line> list(const Look& look, const Widths& widths, std::size_t width, bool brief);

// What stands above a device's processes.
Line gpu_line(const Gpu& gpu, std::size_t width);

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

// One process's memory of one device: what of it needs a look, the map of its arenas, kinds of
// memory, callers.
std::vector<Line> details(const Row& row, const MapState& map, std::size_t width);

}  // namespace cubfc::cli::top
