// The commands of `cubfc`, one function each, in a file of its own name. Each adds its options to
// the command line; what it then does is its callback, which ends the process's work with an exit
// status.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/failure.h"

namespace cubfc::cli {

void add_check(CLI::App& app);
// `words`: the command line behind "cubfc". The program to run and its arguments are taken out of
// it: they are not CLI11's to read. Also below.
void add_compare(CLI::App& app, std::vector<std::string>& words);
void add_demo(CLI::App& app);
// When all others have been added: it tells of them.
void add_documentation(CLI::App& app);
void add_fit(CLI::App& app, std::vector<std::string>& words);
void add_last(CLI::App& app);
void add_limit(CLI::App& app);
void add_metrics(CLI::App& app);
void add_report(CLI::App& app);
void add_replay(CLI::App& app);
void add_run(CLI::App& app, std::vector<std::string>& words);
void add_top(CLI::App& app);
void add_trim(CLI::App& app);

}  // namespace cubfc::cli
