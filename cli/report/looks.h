// Finds what was free, and in how many pieces, at moments over a recording and whenever memory ran
// out.
#pragma once

#include "cli/report/figures.h"

namespace cubfc::report {

// Fills in Figures::samples, the gaps of Figures::at_peak and at_end, and what was in use, taken
// and free at each of Figures::failures.
void add_looks(const recordings::Recording& recording, const History& history, Figures& figures);

}  // namespace cubfc::report
