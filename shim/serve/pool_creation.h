// How a memory pool of the driver's is made for a device under CUBFC_ALLOCATOR=cuda_async. OwnPool
// calls both functions, the second once the first has made the pool. Nothing is kept here.
#pragma once

#include <cstdint>

#include "config/policy.h"
#include "shim/device/device.h"
#include "shim/driver/driver.h"

namespace cubfc {

// Makes a pool that keeps what is freed, instead of giving it back to the device, and that gives
// nothing which work in another stream has yet to leave. It holds no more than the device's limit
// where there is one and the driver can be told. The driver's answer.
CUresult create_pool(const DriverFunctions& driver, const Device& device,
                     CUmemoryPool& pool) noexcept;

// Lets the pool take memory from the device before it is asked for: as much as
// CUBFC_ASYNC_PREALLOCATE says, else what arenas would preallocate, or what the device and the
// limit have of that. The stream's context is current. Waits for the stream. Returns the bytes that
// the pool was warmed with, and says them in the log.
std::uint64_t warm_pool(const DriverFunctions& driver, const config::Policy& policy,
                        const Device& device, CUmemoryPool pool, CUstream stream) noexcept;

}  // namespace cubfc
