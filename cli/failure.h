// How a command ends when it cannot do what it was asked.
#pragma once

#include <string>

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

// The command line is wrong.
[[noreturn]] inline void refuse(const std::string& message) {
  throw Failure{message, kUsage};
}

}  // namespace cubfc::cli
