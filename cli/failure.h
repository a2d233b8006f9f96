// How a command ends when it cannot do what it was asked.
#pragma once

#include <string>

namespace cubfc::cli {

// Exit statuses that all commands share. CLI11 has others of its own for a command line that it
// cannot parse: main() replaces them by kUsage.
enum Exit : int {
  kDone = 0,
  kFailed = 1,  // a file that cannot be read or written, ...: the message says which
  kUsage = 2,   // the command line is wrong; nothing was done
};

// Thrown by a command's callback. main() prints the message to stderr and ends with the exit
// status. An empty message is not printed: the command has said what there is to say.
struct Failure {
  std::string message;
  int exit_status = kFailed;
};

// Ends a command whose command line is wrong.
[[noreturn]] inline void refuse(const std::string& message) {
  throw Failure{message, kUsage};
}

}  // namespace cubfc::cli
