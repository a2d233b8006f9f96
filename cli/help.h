// How `--help` looks: CLI11's text, wrapped.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace cubfc::cli {

// For main(), before it adds the subcommands, which inherit the formatter.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace cubfc::cli
