// Variables of the device: their addresses, and copies to and from them.
#include "registrations.h"

using namespace cudart;

namespace {

// Runs body(driver, address) for `count` bytes of the variable from `offset` on.
template <typename Body>
cudaError_t WithVariable(const void* symbol, std::size_t offset, std::size_t count, Body body) {
  return WithContext([&](const Driver& driver) {
    CUdeviceptr address = 0;
    if (const cudaError_t error = FindInVariable(driver, symbol, offset, count, &address)) {
      return error;
    }
    return ToRuntime(body(driver, address));
  });
}

}  // namespace

CUDART_API cudaGetSymbolAddress(void** out, const void* symbol) {
  return WithVariable(symbol, 0, 0, [&](const Driver&, CUdeviceptr address) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<void*>(address);
    return CUDA_SUCCESS;
  });
}

CUDART_API cudaGetSymbolSize(size_t* out, const void* symbol) {
  return WithContext([&](const Driver& driver) {
    CUdeviceptr address = 0;
    return out ? FindVariable(driver, symbol, &address, out) : cudaErrorInvalidValue;
  });
}

CUDART_API cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                              cudaMemcpyKind kind) {
  (void)kind;  // the driver tells by the pointers
  return WithVariable(symbol, offset, bytes, [&](const Driver& driver, CUdeviceptr to) {
    return driver.cuMemcpy(to, reinterpret_cast<CUdeviceptr>(from), bytes);
  });
}

CUDART_API cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                cudaMemcpyKind kind) {
  (void)kind;
  return WithVariable(symbol, offset, bytes, [&](const Driver& driver, CUdeviceptr from) {
    return driver.cuMemcpy(reinterpret_cast<CUdeviceptr>(to), from, bytes);
  });
}

CUDART_API cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                   size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  return WithVariable(symbol, offset, bytes, [&](const Driver& driver, CUdeviceptr to) {
    return driver.cuMemcpyAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream);
  });
}

CUDART_API cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                     cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  return WithVariable(symbol, offset, bytes, [&](const Driver& driver, CUdeviceptr from) {
    return driver.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream);
  });
}
