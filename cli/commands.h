// The commands of `cubfc`, one function for each, mostly in a file of the command's name. main()
// calls each, which adds the command with its options to `app`. CLI11 calls the command's callback
// when it has parsed the command line. The callback does the work; it throws Failure to end with
// another exit status than 0.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/failure.h"

namespace cubfc::cli {

void add_check(CLI::App& app);
// `words`: the command line without "cubfc". Takes the program to run and its arguments out of
// `words`, so that CLI11 does not parse them. add_fit() and add_run() do so, too.
void add_compare(CLI::App& app, std::vector<std::string>& words);
void add_demo(CLI::App& app);
// `completion` and `man-page`, which describe all commands of `app`.
void add_documentation(CLI::App& app);
void add_fit(CLI::App& app, std::vector<std::string>& words);
void add_last(CLI::App& app);
void add_limit(CLI::App& app);
void add_metrics(CLI::App& app);
void add_report(CLI::App& app);
void add_replay(CLI::App& app);
void add_run(CLI::App& app, std::vector<std::string>& words);
void add_sleep(CLI::App& app);
void add_top(CLI::App& app);
void add_trim(CLI::App& app);
void add_wake(CLI::App& app);

}  // namespace cubfc::cli
