// Writes a look as JSON, for scripts. The names are those of the summary (CUBFC_SUMMARY), and must
// not change.
#pragma once

#include <string>

#include "cli/top/look.h"

namespace cubfc::cli::top {

// One object in one line, which is ended.
std::string json(const Look& look);

}  // namespace cubfc::cli::top
