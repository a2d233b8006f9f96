// A correct program: steps that the model has taken, and what is there when they are done.
#pragma once

#include <cstdint>
#include <functional>

#include "model.h"
#include "steps.h"

namespace random_programs {

struct Program {
  int threads = 1;
  Steps steps;
  Model end;

  // Adds the step if a correct program may go on with it.
  bool add(Step step) {
    if (!end.take(step)) {
      return false;
    }
    steps.push_back(step);
    return true;
  }
};

/// What programs may have.
struct Allowed {
  int devices = 1;
  bool captures = true;  // a stream may capture
  bool threads = true;   // several of them
};

/// The same program for the same seed, everywhere, on the first one or two of the devices.
Program generate(std::uint64_t seed, const Allowed& allowed);

/// Whether a program fails when it is run, now.
using Fails = std::function<bool(const Program&)>;

/// As little of a failing program as still fails, found in a few thousand runs at most. What does
/// not fail in `runs` runs counts as right; 0: in some, the more the shorter it is, since a race
/// does not show each time.
Program shrink(const Program& program, const Fails& fails, int runs);

}  // namespace random_programs
