// The file that CUBFC_SUMMARY names.
#pragma once

#include <string>

#include "shim/tell/summary.h"

namespace cubfc {

// Writes it to this path, as JSON if the name ends in ".json". While the program goes on, only
// where an ordinary file is to be made or replaced: a pipe gets the summary once, at the end. What
// is wrong is logged then.
void write_summary(const std::string& path, const Summary& summary) noexcept;

}  // namespace cubfc
