// Draws what was in use over time, with characters.
#pragma once

#include "cli/report/forms.h"
#include "cli/report/text_table.h"

namespace cubfc::report {

// Without rows if nothing was ever in use, or the recording has no history.
TextTable chart_of(const Told& told);

}  // namespace cubfc::report
