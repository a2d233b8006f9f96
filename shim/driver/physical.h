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

}  // namespace cubfc
