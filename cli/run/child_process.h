// Child processes, for what could hang or crash.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/run/settings.h"

namespace cubfc::cli {

// As fork(): 0 in the child; -1, with errno, where there can be none. The child is killed when the
// thread that has called this ends, and so when its process ends.
pid_t fork_with_this();

// This command, for a child to execute with other words. The constructor does what must not be done
// between fork() and exec.
class CommandAgain {
 public:
  // `words`: without "cubfc". `variables`: see environment_with().
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
