// Tells whether a tool has patched an exported driver function (thunks.cpp).
#pragma once

namespace cubfc {

// Whether a tool has overwritten the beginning of this exported function. cubfc's cudaMalloc and
// cudaFree ask at each call. If so, they leave the call to the CUDA runtime, which calls the
// exported function, so that the tool sees the call. Reads the function's code; takes no lock.
bool is_replaced(const void* thunk) noexcept;

}  // namespace cubfc
