// cubfc's cudaMalloc, cudaFree, cudaMallocAsync and cudaMallocFromPoolAsync, for programs whose
// CUDA runtime is a shared library. (A runtime that is linked into the program is not intercepted;
// its requests come through the driver's entry points.)
#pragma once

#include <string_view>

namespace cubfc {

// cubfc's function of this name of the CUDA runtime; nullptr if there is none.
void* runtime_wrapper(std::string_view name);

}  // namespace cubfc
