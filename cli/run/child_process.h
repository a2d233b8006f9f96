// Processes that this one makes to have something done that could hang or crash.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/run/settings.h"

namespace cubfc::cli {

// As fork(): 0 in the child, -1 with errno where there can be none. The child is killed when the
// thread that has called this ends, and so when its process does.
pid_t fork_with_this();

// This command, to be executed again with other words by a child: what must not be done between
// fork() and exec is done when it is made.
class CommandAgain {
 public:
  // `words`: without the command's own name. Its environment is this one's with `variables`.
  CommandAgain(const std::vector<std::string>& words, const Variables& variables);
  // Ends the process with status 127 where it cannot be executed.
  [[noreturn]] void execute() const noexcept;

 private:
  std::vector<std::string> words_;
  std::vector<std::string> entries_;
  std::string path_;
  std::vector<char*> arguments_;
  std::vector<char*> environment_;
};

}  // namespace cubfc::cli
