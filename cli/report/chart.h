// Draws what was in use over time, with characters.
#pragma once

#include "cli/report/forms.h"
#include "cli/report/text_table.h"

namespace cubfc::report {

// The table has no rows if nothing was ever in use, or if the recording is a single state.
TextTable chart_of(const Told& told);

}  // namespace cubfc::report
