#include "shim/runtime_entry_points.h"

#include "shim/process.h"
#include "shim/symbols.h"

// Thin on purpose: what is plain goes to the arena; everything else, every failure included, goes
// to the program's runtime, which comes back through the driver's entry points and keeps its last
// error right.

namespace {

// cudaError_t, of which two values are needed (driver_types.h): cudaSuccess and
// cudaErrorInitializationError.
using RuntimeError = int;
constexpr RuntimeError kSuccess = 0;
constexpr RuntimeError kInitializationError = 3;

}  // namespace

extern "C" {

__attribute__((visibility("default"))) RuntimeError cudaMalloc(void** address,
                                                               std::size_t bytes) noexcept {
  cubfc::Process* process = cubfc::Process::active();
  if (process != nullptr && address != nullptr) {
    if (const CUdeviceptr got = process->memory().try_allocate(bytes); got != 0) {
      *address = reinterpret_cast<void*>(got);
      return kSuccess;
    }
  }
  using Function = RuntimeError (*)(void**, std::size_t);
  const auto real = reinterpret_cast<Function>(
      cubfc::definition_without_us("cudaMalloc", __builtin_return_address(0)));
  return real == nullptr ? kInitializationError : real(address, bytes);
}

__attribute__((visibility("default"))) RuntimeError cudaFree(void* address) noexcept {
  cubfc::Process* process = cubfc::Process::active();
  if (process != nullptr && address != nullptr &&
      process->memory().try_free(reinterpret_cast<CUdeviceptr>(address))) {
    return kSuccess;
  }
  using Function = RuntimeError (*)(void*);
  const auto real = reinterpret_cast<Function>(
      cubfc::definition_without_us("cudaFree", __builtin_return_address(0)));
  return real == nullptr ? kInitializationError : real(address);
}

}  // extern "C"

namespace cubfc {

void* runtime_wrapper(std::string_view name) {
  if (name == "cudaMalloc") {
    return reinterpret_cast<void*>(&cudaMalloc);
  }
  return name == "cudaFree" ? reinterpret_cast<void*>(&cudaFree) : nullptr;
}

}  // namespace cubfc
