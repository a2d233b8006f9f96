// Physical memory of a device apart from addresses, as cuMemCreate gives it.
#pragma once

#include <cstdint>

#include "shim/driver/driver.h"

namespace cubfc {

// Of the device's memory, to be mapped into its own and its peers' addresses; network adapters
// reach it where the device can have that.
CUmemAllocationProp physical_memory_of(const DriverFunctions& driver, CUdevice device) noexcept;

// In bytes: every such allocation is a multiple of it. 0 where the device or the driver has no such
// memory.
std::uint64_t physical_granularity(const DriverFunctions& driver, CUdevice device) noexcept;

// Whether the device decompresses in hardware, into and from memory that is made for it: then
// memory that stands for cuMemAlloc's is made so (cuda.h, cuMemBatchDecompressAsync).
bool decompresses(const DriverFunctions& driver, CUdevice device) noexcept;
// For the `usage` of physical memory and of pools; of CUDA 12.8.
inline constexpr unsigned short kForDecompression = 2;

}  // namespace cubfc
