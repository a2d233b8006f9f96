// The wrappers of cuGetProcAddress, the driver's own look-up of its functions.
#include "shim/hook/calls.h"

namespace cubfc {
namespace {

// Puts cubfc's function in place of the one that the driver has answered. Where cubfc has none,
// CUBFC_SLEEP puts a gate in front of the driver's. cubfc's function is found by the address, not
// by the name: only the driver knows which ABI a version means.
CUresult route_result(CUresult result, const char* symbol, void** function) {
  const Routes* const routes = Routes::find();
  if (result == CUDA_SUCCESS && routes != nullptr && symbol != nullptr && function != nullptr &&
      Process::intercepts()) {
    routes->learn(symbol);
    *function = routes->route_named(symbol, *function);
  }
  return result;
}

}  // namespace

using Functions = DriverFunctions;

namespace wrapper {
extern "C" {

CUresult cubfc_cuGetProcAddress(const char* symbol, void** function, int version,
                                cuuint64_t flags) {
  const CUresult result = call(&Functions::cuGetProcAddress, symbol, function, version, flags);
  return route_result(result, symbol, function);
}

CUresult cubfc_cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                   cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  const CUresult result =
      call(&Functions::cuGetProcAddress_v2, symbol, function, version, flags, status);
  return route_result(result, symbol, function);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
