// What the keys of `cubfc top` do, and what its signs mean, for who asks while it runs.
#pragma once

#include <vector>

#include "cli/top/line.h"

namespace cubfc::cli::top {

// The keys first: a small terminal shows one part after the other.
std::vector<Line> help_lines();

}  // namespace cubfc::cli::top
