#include "shim/hook/runtime.h"

#include <array>
#include <cstdint>
#include <new>

#include "shim/hook/calls.h"
#include "shim/hook/routes.h"
#include "shim/hook/thunks.h"
#include "shim/limit/callers.h"
#include "shim/loader/loaded_objects.h"
#include "shim/loader/no_cancellation.h"
#include "shim/loader/symbols.h"
#include "shim/process.h"
#include "shim/serve/allocations.h"
#include "shim/serve/frees.h"

// Thin on purpose. What an arena can serve without growing is served here. Everything else, every
// failure included, goes to the program's CUDA runtime, which comes back through the driver's entry
// points and keeps its own last error right. If another library overrides these functions, too, or
// a tool has replaced the driver's, every call goes to the runtime: that library or that tool is to
// see every call.

namespace {

// cudaError_t, of which two values are needed (driver_types.h): cudaSuccess and
// cudaErrorInitializationError.
using RuntimeError = int;
constexpr RuntimeError kSuccess = 0;
constexpr RuntimeError kInitializationError = 3;

// The function of this name that `caller` would have found without cubfc, else that of any CUDA
// runtime that is loaded; nullptr if there is none. Each thread remembers the answer by caller
// until an object is loaded or unloaded. Each name must have its own Function type, because each
// Function type has one array of answers.
template <typename Function>
Function real_function(const char* name, const void* caller) {
  struct Found {
    const void* caller;
    std::uint64_t generation;
    void* function;
  };
  thread_local std::array<Found, 8> known{};
  const std::uint64_t generation = cubfc::objects_generation();
  Found& last = known[reinterpret_cast<std::uintptr_t>(caller) / 4 % known.size()];
  if (last.caller != caller || last.generation != generation) {
    void* found = cubfc::definition_without_us(name, caller);
    if (found == nullptr) {
      found = cubfc::definition_in_loaded_runtime(name);
    }
    last = {caller, generation, found};
  }
  return reinterpret_cast<Function>(last.function);
}

CUdeviceptr look_further(cubfc::Process& process, std::size_t bytes, const void* caller) try {
  const cubfc::NoCancellation no_cancellation;
  const cubfc::Callers::Asking asking(caller);
  if (cubfc::TraceRecorder* const trace = process.trace(); trace != nullptr) {
    trace->capture_stack(caller);
  }
  return process.allocations().try_allocate(bytes);
} catch (const std::bad_alloc&) {  // no host memory: the driver's entry point will say so
  return 0;
}

// Calls the CUDA runtime's function of this name, which comes back through a driver entry point.
// What is allocated there counts for the program's object that `caller` lies in, not for the
// runtime.
template <typename... Arguments>
RuntimeError allocate_for(const char* name, const void* caller, Arguments... arguments) {
  using Function = RuntimeError (*)(Arguments...);
  const auto real = real_function<Function>(name, caller);
  if (real == nullptr) {
    return kInitializationError;
  }
  const bool is_first = cubfc::Callers::begin_asking(caller);
  const RuntimeError result = real(arguments...);
  cubfc::Callers::end_asking(is_first);
  return result;
}

// cudaMalloc when take_at_hand() has returned 0, or when the call is to be passed on (`process` is
// nullptr). `caller`: the return address of the program's call.
[[gnu::noinline]] RuntimeError allocate_otherwise(cubfc::Process* process, void** address,
                                                  std::size_t bytes, const void* caller) {
  const CUdeviceptr got = process == nullptr ? 0 : look_further(*process, bytes, caller);
  if (got != 0) {
    *address = reinterpret_cast<void*>(got);
    return kSuccess;
  }
  return allocate_for("cudaMalloc", caller, address, bytes);
}

[[gnu::noinline]] bool free_otherwise(cubfc::Process& process, CUdeviceptr address) try {
  const cubfc::NoCancellation no_cancellation;
  return process.frees().try_free(address);
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) RuntimeError cudaMalloc(void** address, std::size_t bytes) {
  const void* const caller = __builtin_return_address(0);
  cubfc::Process* process = cubfc::Process::active();
  if (process == nullptr || address == nullptr || process->overridden().cuda_malloc ||
      cubfc::is_replaced(reinterpret_cast<void*>(&cubfc::wrapper::exported_cuMemAlloc_v2)))
      [[unlikely]] {
    return allocate_otherwise(nullptr, address, bytes, caller);
  }
  const CUdeviceptr got = process->allocations().take_at_hand(bytes, caller);
  if (got == 0) [[unlikely]] {
    return allocate_otherwise(process, address, bytes, caller);
  }
  *address = reinterpret_cast<void*>(got);
  return kSuccess;
}

__attribute__((visibility("default"))) RuntimeError cudaFree(void* address) {
  cubfc::Process* process = cubfc::Process::active();
  if (process != nullptr && address != nullptr && !process->overridden().cuda_free &&
      !cubfc::is_replaced(reinterpret_cast<void*>(&cubfc::wrapper::exported_cuMemFree_v2))) {
    const auto block = reinterpret_cast<CUdeviceptr>(address);
    const auto freed = process->frees().free_at_hand(block);
    if (freed == cubfc::arena::Arena::Gathered::kFull) [[unlikely]] {
      return static_cast<RuntimeError>(cubfc::tidy_frees(*process));  // CUresult's numbers
    }
    if (freed != cubfc::arena::Arena::Gathered::kNot || free_otherwise(*process, block))
        [[likely]] {
      return kSuccess;
    }
  }
  using Function = RuntimeError (*)(void*);
  const auto real = real_function<Function>("cudaFree", __builtin_return_address(0));
  return real == nullptr ? kInitializationError : real(address);
}

// `stream` and `pool` are the runtime's handles, which are opaque pointers.
__attribute__((visibility("default"))) RuntimeError cudaMallocAsync(void** address,
                                                                    std::size_t bytes,
                                                                    void* stream) {
  return allocate_for("cudaMallocAsync", __builtin_return_address(0), address, bytes, stream);
}

__attribute__((visibility("default"))) RuntimeError cudaMallocFromPoolAsync(void** address,
                                                                            std::size_t bytes,
                                                                            void* pool,
                                                                            void* stream) {
  return allocate_for("cudaMallocFromPoolAsync", __builtin_return_address(0), address, bytes, pool,
                      stream);
}

}  // extern "C"

namespace cubfc {

void* runtime_wrapper(std::string_view name) {
  if (name == "cudaMalloc") {
    return reinterpret_cast<void*>(&cudaMalloc);
  }
  if (name == "cudaMallocAsync") {
    return reinterpret_cast<void*>(&cudaMallocAsync);
  }
  if (name == "cudaMallocFromPoolAsync") {
    return reinterpret_cast<void*>(&cudaMallocFromPoolAsync);
  }
  return name == "cudaFree" ? reinterpret_cast<void*>(&cudaFree) : nullptr;
}

}  // namespace cubfc
