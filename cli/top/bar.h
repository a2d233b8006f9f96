// Draws how full a GPU is, as a bar: what processes under cubfc use, what they hold and do not use,
// what others hold, what is free.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/top/line.h"
#include "cli/top/look.h"

namespace cubfc::cli::top {

// One line if there is room for the bar and its legend side by side, else more. `brief`: always one
// line, if need be without the legend.
std::vector<Line> bar_lines(const Gpu& gpu, std::size_t width, bool brief);

}  // namespace cubfc::cli::top
