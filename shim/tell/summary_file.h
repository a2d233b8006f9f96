// The file that CUBFC_SUMMARY names.
#pragma once

#include <string>

#include "shim/tell/summary.h"

namespace cubfc {

// Writes the summary to this path, as JSON if the name ends in ".json". While the program goes on,
// writes only where a regular file is to be made or replaced: a pipe gets the summary once, at the
// end. Errors are logged at the end only.
void write_summary(const std::string& path, const Summary& summary) noexcept;

}  // namespace cubfc
