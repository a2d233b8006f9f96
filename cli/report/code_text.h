// Which code holds the memory, for a terminal: rows of at most 80 characters. Nothing for a
// recording without stacks.
#pragma once

#include "cli/report/forms.h"
#include "cli/report/text_table.h"

namespace cubfc::report {

// The lines of the program that hold most at the peak, and at the end.
TextTable lines_table(const Told& told);

// Through which functions they were reached, the outermost first; at the peak.
TextTable call_tree_table(const Told& told);

}  // namespace cubfc::report
