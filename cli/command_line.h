// Messages for a command line that cannot be used: what is wrong, and what to type.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cubfc::cli {

// The message about `error`, which app.parse() has thrown, such as: run: there is no option
// "--tarce"; did you mean "--trace"? See `cubfc run --help`.
std::string explained(const CLI::App& app, const CLI::ParseError& error);

// The message where the first word should be a command and is none; else empty.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace cubfc::cli
