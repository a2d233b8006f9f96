// Commands that start a program: its words are its own, whatever they look like.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cubfc::cli {

// Takes the program and its arguments out of the command line behind "cubfc", if that is for this
// command: from the first word on that is no option of its, nor an option's value, or from behind
// "--". All options must have been added.
std::vector<std::string> take_program(const CLI::App& command, std::vector<std::string>& words);

}  // namespace cubfc::cli
