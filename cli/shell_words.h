// Words of a command line, as a shell reads them.
#pragma once

#include <string>

namespace cubfc::cli {

// The text as one word in single quotes, for a POSIX shell.
std::string in_single_quotes(const std::string& text);

// A file's name as a word that a user may type: in quotes only where needed, and never like an
// option.
std::string for_shell(const std::string& text);

}  // namespace cubfc::cli
