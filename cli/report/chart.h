// What was in use over time, drawn with characters.
#pragma once

#include "cli/report/forms.h"
#include "cli/report/text_table.h"

namespace cubfc::report {

// Nothing where nothing was ever in use, or nobody knows when.
TextTable chart_of(const Told& told);

}  // namespace cubfc::report
