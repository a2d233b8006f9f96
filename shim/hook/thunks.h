// The exported driver functions (thunks.cpp), as tools see them.
#pragma once

namespace cubfc {

// Whether a tool has overwritten the beginning of this exported function. cudaMalloc and cudaFree
// ask, and then leave the call to the runtime, so that the tool sees it. Reads the code; no lock.
bool is_replaced(const void* thunk) noexcept;

}  // namespace cubfc
