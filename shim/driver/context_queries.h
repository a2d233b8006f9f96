// What the driver says of its contexts.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "shim/driver/driver.h"

namespace cubfc {

// cuCtxGetId; 0 if the driver does not tell.
std::uint64_t id_of(const DriverFunctions& driver, CUcontext context);

// The handle of the device's primary context; nullptr if that is not active: asking does not make
// it active. Nothing if the driver fails.
std::optional<CUcontext> primary_of(const DriverFunctions& driver, CUdevice device);

}  // namespace cubfc
