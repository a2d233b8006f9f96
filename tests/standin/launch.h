// How a kernel gets into a stream, for all functions that launch one.
#pragma once

#include "modules.h"

namespace standin {

struct Arguments {
  void** each;    // a pointer to each argument, or
  void** packed;  // pairs of CU_LAUNCH_PARAM_... and a value
};

CUresult LaunchFunction(CUfunction handle, Launch launch, CUstream stream, Arguments arguments);

}  // namespace standin
