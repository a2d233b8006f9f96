// Functions that a program may ask for, and that there is nothing for here: they say so.
#include "entry_point.h"

namespace standin {
namespace {

template <typename... Arguments>
CUresult Unsupported(const Arguments&... /*ignored*/) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace
}  // namespace standin

using namespace standin;

#define UNSUPPORTED(symbol, parameters, arguments) \
  STANDIN_EXPORT(symbol, Unsupported, parameters, arguments, kInit, kLegacy)

// Textures of launches before CUDA 4.
UNSUPPORTED(cuParamSetTexRef, (CUfunction f, int unit, CUtexref texture), (f, unit, texture))

// Profiles in files, deprecated since CUDA 11.
UNSUPPORTED(cuProfilerInitialize, (const char* from, const char* to, int mode), (from, to, mode))
