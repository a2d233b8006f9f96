#include "shim/driver/context_queries.h"

namespace cubfc {

std::uint64_t id_of(const DriverFunctions& driver, CUcontext context) {
  unsigned long long id = 0;
  return driver.cuCtxGetId(context, &id) == CUDA_SUCCESS ? id : 0;
}

std::optional<CUcontext> primary_of(const DriverFunctions& driver, CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  CUcontext primary = nullptr;
  if (driver.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  if (active == 0) {
    return nullptr;
  }
  if (driver.cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  driver.cuDevicePrimaryCtxRelease_v2(device);
  return primary;
}

}  // namespace cubfc
