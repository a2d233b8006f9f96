// What is said of a command line that cannot be used: what is wrong, and what to type.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cubfc::cli {

// "run: there is no option --tarce; did you mean --trace?". `error`: what parsing the words with
// `app` has thrown.
std::string explained(const CLI::App& app, const CLI::ParseError& error);

// If the first word should be a command and is none, what to say of it; else nothing.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace cubfc::cli
