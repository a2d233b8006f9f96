// How a memory pool of the driver's is made for a device under CUBFC_ALLOCATOR=cuda_async. OwnPool
// calls both functions, the second once the first has made the pool. Nothing is kept here.
#pragma once

#include <cstdint>

#include "config/policy.h"
#include "shim/device/device.h"
#include "shim/driver/driver.h"

namespace cubfc {

// Makes a pool that keeps freed memory instead of giving it back to the device, and that gives out
// no memory that work of another stream may still use. If the device has a limit, and the driver
// can be told, the pool never holds more than that. Returns the driver's answer.
CUresult create_pool(const DriverFunctions& driver, const Device& device,
                     CUmemoryPool& pool) noexcept;

// Fills the pool with memory of the device ahead of requests: as much as CUBFC_ASYNC_PREALLOCATE
// says; with -1 as much as an arena would preallocate; with 0, the default, nothing. Takes less
// where reserve, limit or device leave less, and nothing below 1 MiB. OwnPool calls it when it has
// made the pool, with the stream's context current. Waits for the stream. Returns the bytes with
// which the pool was warmed, and says them in the log unless 0 was asked for.
std::uint64_t warm_pool(const DriverFunctions& driver, const config::Policy& policy,
                        const Device& device, CUmemoryPool pool, CUstream stream) noexcept;

}  // namespace cubfc
