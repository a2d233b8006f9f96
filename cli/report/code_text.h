// Tables of the code that holds the memory, for a terminal: rows of at most 80 characters. The
// tables have no rows for a recording without stacks.
#pragma once

#include "cli/report/forms.h"
#include "cli/report/text_table.h"

namespace cubfc::report {

// The lines of the program that hold most at the peak, and those that hold most at the end.
TextTable lines_table(const Told& told);

// The functions through which the memory in use at the peak was asked for, the outermost first.
TextTable call_tree_table(const Told& told);

}  // namespace cubfc::report
