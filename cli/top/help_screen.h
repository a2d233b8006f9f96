// The help that `cubfc top` shows while it runs: what its keys do, and what its signs mean.
#pragma once

#include <vector>

#include "cli/top/line.h"

namespace cubfc::cli::top {

// The lines of the help. The keys come first, since a small terminal shows one part after the
// other.
std::vector<Line> help_lines();

}  // namespace cubfc::cli::top
