// What was free, and in how many pieces, at moments over a recording and whenever memory ran out.
#pragma once

#include "cli/report/figures.h"

namespace cubfc::report {

// Fills in Figures::samples, and what Figures::failures say of their moments.
void add_looks(const recordings::Recording& recording, const History& history, Figures& figures);

}  // namespace cubfc::report
