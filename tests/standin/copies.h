// The bytes that copies and sets touch, checked.
#pragma once

#include "state.h"

namespace standin {

// Whether [address, address + bytes) lies in one allocation or mapping. Wants state().mutex held.
bool IsDeviceRange(CUdeviceptr address, std::size_t bytes);

// Whether the driver knows the host memory as pinned. Wants state().mutex held.
bool IsPinned(const void* address);

// Whether the host can read the memory: it is pinned, or managed. Wants state().mutex held.
bool IsReadByHost(CUdeviceptr address);

}  // namespace standin
