// Child processes in which `cubfc check` calls the driver, because the driver may hang or end the
// process. Each loads the driver and the library as a program would.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/run/settings.h"

namespace cubfc::cli::check {

struct ChildEnd {
  std::string output;  // what it wrote to its stdout
  std::string errors;  // what it wrote to its stderr, with Errors::kCatch
  int status = 0;      // as waitpid gives it
  bool is_late = false;
  // "" where the child ended with exit status 0; else how it ended, in words. Precondition:
  // !is_late.
  std::string problem() const;
};

enum class Errors : bool { kCatch, kShow };

// Runs this command again as a child, with these words. `variables` are set in the child's
// environment, or removed where the value is empty. `errors`: whether the child's stderr is
// returned or shown. Kills a child that takes longer than `most`. Throws Failure.
ChildEnd run_child(const std::vector<std::string>& words, const Variables& variables, Errors errors,
                   std::chrono::seconds most);

}  // namespace cubfc::cli::check
