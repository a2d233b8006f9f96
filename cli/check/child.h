// What `cubfc check` does with the driver, it does in a child: the driver may hang, or end the
// process, and it and the library have to be loaded as a program would load them.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/run/settings.h"

namespace cubfc::cli::check {

struct ChildEnd {
  std::string output;  // what it wrote to its stdout
  std::string errors;  // and to its stderr, unless that was shown
  int status = 0;      // as waitpid gives it
  bool is_late = false;
  // "" where it ended with exit status 0; else in words. Not of one that is late.
  std::string problem() const;
};

enum class Errors : bool { kCatch, kShow };

// This very command with these words, and these variables beside those of the environment, which
// are taken out where they are empty. Ended when it takes longer. Throws Failure.
ChildEnd run_child(const std::vector<std::string>& words, const Variables& variables, Errors errors,
                   std::chrono::seconds most);

}  // namespace cubfc::cli::check
