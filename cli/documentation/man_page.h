// cubfc(1), in troff.
#pragma once

#include <string>
#include <vector>

#include "cli/documentation/tree.h"

namespace cubfc::cli::documentation {

// With the options of the environment behind the commands.
std::string man_page(const std::vector<Command>& commands, const std::string& version);

}  // namespace cubfc::cli::documentation
