// Writes a look as lines of text: for each device a header, a bar and its processes; and the
// details of one process. Knows nothing of terminals but their width.
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

// Lines of at most `width` columns: where there is no room, the columns of the table that say least
// are left out, and texts are cut. Each device has the titles of the columns.
std::vector<Line> table(const Look& look, std::size_t width);

// As table(), but without titles, for a screen that has them above. `brief`: with bars of one line.
std::vector<Line> list(const Look& look, const Widths& widths, std::size_t width, bool brief);

// The header of a device.
Line gpu_line(const Gpu& gpu, std::size_t width);

// What is wrong with files of figures that cannot be read.
std::vector<Line> problems(const Look& look, std::size_t width);
// What the user can check when no process is there, or none of `pids`; empty if one is there.
std::vector<Line> nothing_there(const Look& look, const std::vector<int>& pids);

// What has become of the request to a process for its map.
enum class Map { kNotAsked, kCannotAsk, kAsked, kCame, kLate };
struct MapState {
  Map state = Map::kNotAsked;
  std::optional<std::chrono::seconds> age;  // of the last map that came; nothing: none has come
};

// The details of one process on one device: what needs a look, the map of its arenas, kinds of
// memory, callers.
std::vector<Line> details(const Row& row, const MapState& map, std::size_t width);

}  // namespace cubfc::cli::top
