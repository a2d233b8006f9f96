// What a launch of a kernel needs, from a stream or from a graph, for all functions that launch
// one.
#pragma once

#include "graph.h"

namespace standin {

struct Arguments {
  void** each;    // a pointer to each argument, or
  void** packed;  // pairs of CU_LAUNCH_PARAM_... and a value
};

// Checks the shape and copies the arguments, which belong to the caller again when the launch
// returns. Wants state().mutex held.
CUresult PrepareLaunch(const void* function, Launch launch, unsigned shared_bytes,
                       Arguments arguments, KernelNode& out);

// What a prepared launch does, as the work of a stream.
void RunKernel(const KernelNode& node);

// Launches the function in a stream.
CUresult LaunchFunction(CUfunction function, Launch launch, unsigned shared_bytes, CUstream stream,
                        Arguments arguments);

}  // namespace standin
