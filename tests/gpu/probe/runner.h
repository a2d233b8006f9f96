// Runs cases in child processes, so that one that crashes, hangs or leaves an error that sticks
// costs its own answer and no other. This process never touches CUDA.
#pragma once

#include <functional>
#include <vector>

#include "cases.h"

namespace probe {

struct Limits {
  bool may_fill = false;
  int case_ms = 8000;    ///< a case that takes longer is ended
  int total_ms = 55000;  ///< cases that have not begun by then are left out
};

/// One answer for each case, in the order of the cases; what could not be answered says why.
std::vector<Answer> run_cases(const Driver& driver, const Cases& cases, const Limits& limits);

}  // namespace probe
