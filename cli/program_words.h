// For commands that start a program: takes the program's words, which may look like options, out of
// the command line before CLI11 parses it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cubfc::cli {

// Removes the program and its arguments from `words`, the command line without "cubfc", and returns
// them. They are what follows "--", or else begin with the first word that is neither an option of
// `command` nor an option's value. Returns nothing where `words` are for another command. Call it
// when all options have been added. Throws Failure.
std::vector<std::string> take_program(const CLI::App& command, std::vector<std::string>& words);

}  // namespace cubfc::cli
