// Physical memory of a device, as cuMemCreate gives it: mapped at no address yet.
#pragma once

#include <cstdint>

#include "shim/driver/driver.h"

namespace cubfc {

// The properties with which cubfc calls cuMemCreate: memory of this device, to be mapped for the
// device and its peers. If the device supports that, network adapters can reach the memory
// (GPUDirect RDMA).
CUmemAllocationProp physical_memory_of(const DriverFunctions& driver, CUdevice device) noexcept;

// The size of such memory must be a multiple of this, in bytes: a power of two. 0 if the device or
// the driver does not support such memory.
std::uint64_t physical_granularity(const DriverFunctions& driver, CUdevice device) noexcept;

// Whether the device can decompress in hardware. It does so only to and from memory that was
// allocated for that, as cuMemAlloc's is (cuda.h, cuMemBatchDecompressAsync). So memory that cubfc
// gives in place of cuMemAlloc's must be allocated for that, too.
bool decompresses(const DriverFunctions& driver, CUdevice device) noexcept;
// The value of `usage` for such memory: CU_MEM_CREATE_USAGE_HW_DECOMPRESS, and for pools
// CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS. Headers before CUDA 12.8 lack both.
inline constexpr unsigned short kForDecompression = 2;

}  // namespace cubfc
