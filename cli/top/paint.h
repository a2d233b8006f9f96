// Adds to a line the escape sequences of its styles (ECMA-48, SGR), which every terminal knows.
#pragma once

#include <cstddef>
#include <string>

#include "cli/top/line.h"

namespace cubfc::cli::top {

// At most `width` columns. A selected line begins with '>'. `plain`: without any sequences.
std::string painted(const Line& line, std::size_t width, bool selected, bool plain);

}  // namespace cubfc::cli::top
