// Children in which `cubfc check` calls the driver. The driver may hang, or end the process; and
// the driver and the library must be loaded as a program would load them.
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

// Runs this command again, with these words. `variables` are set in its environment; those with an
// empty value are removed from it. `errors`: whether the child's stderr is returned, or shown.
// Kills a child that takes longer than `most`. Throws Failure.
ChildEnd run_child(const std::vector<std::string>& words, const Variables& variables, Errors errors,
                   std::chrono::seconds most);

}  // namespace cubfc::cli::check
