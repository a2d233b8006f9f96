// How `--help` looks: CLI11's text, wrapped.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace cubfc::cli {

// For the whole command; its subcommands take it over.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace cubfc::cli
