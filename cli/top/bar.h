// How full a GPU is, as a bar: what is in use by processes under cubfc, what they hold and do not
// use, what others hold, what is free.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/top/line.h"
#include "cli/top/look.h"

namespace cubfc::cli::top {

// One line where there is room for the bar and its legend side by side, else more. `brief`: not
// more than one, whatever is missing in it then.
std::vector<Line> bar_lines(const Gpu& gpu, std::size_t width, bool brief);

}  // namespace cubfc::cli::top
