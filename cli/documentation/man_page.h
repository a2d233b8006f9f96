// cubfc(1), in troff.
#pragma once

#include <string>

#include "cli/documentation/tree.h"

namespace cubfc::cli::documentation {

// The whole page. cubfc's variables in the environment come behind the commands.
std::string man_page(const Tree& tree, const std::string& version);

}  // namespace cubfc::cli::documentation
