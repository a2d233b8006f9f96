// Words of a command line, as a shell reads them.
#pragma once

#include <string>

namespace cubfc::cli {

// Without what a shell would see as the end of a quotation, or as special in it.
std::string in_single_quotes(const std::string& text);

// A word that a user may type: in quotes only where it has to be.
std::string for_shell(const std::string& text);

}  // namespace cubfc::cli
