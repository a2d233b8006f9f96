// Green contexts and the multiprocessors that they have.
#pragma once

#include "state.h"

#if CUDA_VERSION >= 12040

namespace standin {

// Both want state().mutex held.
CUresult FindGreen(CUgreenCtx handle, std::shared_ptr<Context>& out);
unsigned MultiprocessorsOf(CUdevResourceDesc resources);

}  // namespace standin

#endif
