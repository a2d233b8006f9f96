// The commands of `cubfc`, one function each, in a file of its own name. Each adds its options to
// the command line; what it then does is its callback, which ends the process's work with an exit
// status.
#pragma once

#include <CLI/CLI.hpp>

namespace cubfc::cli {

// Exit statuses that all commands share. CLI11 gives its own for a command line that cannot be
// read: main() makes them kUsage.
enum Exit : int {
  kDone = 0,
  kFailed = 1,  // a file that cannot be read or written, ...: the message says which
  kUsage = 2,   // the command line is wrong; nothing was done
};

// Thrown by a command's callback, with the message for stderr, or empty if it has been given.
struct Failure {
  std::string message;
  int exit_status = kFailed;
};

void add_metrics(CLI::App& app);
void add_report(CLI::App& app);
void add_replay(CLI::App& app);
void add_top(CLI::App& app);

}  // namespace cubfc::cli
