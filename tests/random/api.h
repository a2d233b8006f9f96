// The functions of the CUDA driver that random programs call: those of the other programs, and some
// more.
#pragma once

#include <cuda.h>

#include "driver.h"

// clang-format off
#define RANDOM_PROGRAM_FUNCTIONS(X) \
  X(cuEventCreate) X(cuEventRecord) X(cuEventSynchronize) X(cuStreamWaitEvent) \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuGraphInstantiateWithFlags) X(cuGraphDestroy) \
  X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuMemAllocAsync) X(cuMemFreeAsync)
// clang-format on

namespace random_programs {

struct Api : programs::Driver {
#define RANDOM_PROGRAM_MEMBER(function) decltype(&::function) function = nullptr;
  RANDOM_PROGRAM_FUNCTIONS(RANDOM_PROGRAM_MEMBER)
#undef RANDOM_PROGRAM_MEMBER
};

/// Ends the program as programs::open_driver does.
Api open_api(programs::Via via);

}  // namespace random_programs
