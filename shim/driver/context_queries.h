// What the driver says of its contexts.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "shim/driver/driver.h"

namespace cubfc {

// cuCtxGetId; 0 if the driver does not tell.
std::uint64_t id_of(const DriverFunctions& driver, CUcontext context);

// The primary context's handle, nullptr if it is not active: asking never makes it active. Nothing
// if the driver cannot tell.
std::optional<CUcontext> primary_of(const DriverFunctions& driver, CUdevice device);

}  // namespace cubfc
