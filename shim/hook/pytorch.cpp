// PyTorch takes memory for its tensors from a cache of its own, which asks CUDA for a segment now
// and then. So the requests for segments do not show which line keeps a tensor. But whenever the
// cache hands out a tensor or gets one back, it calls a function of libc10.so, for PyTorch's
// profiler. The function here has the same name and is found before PyTorch's. It records the
// tensor if stacks and tensors are recorded (CUBFC_TRACE_STACKS, CUBFC_TRACE_TENSORS), and then
// calls PyTorch's. It is called under the lock of PyTorch's cache, as cudaMalloc is.
#include <array>
#include <cstddef>
#include <cstdint>

#include "shim/loader/exported_symbols.h"
#include "shim/loader/loaded_objects.h"
#include "shim/loader/no_cancellation.h"
#include "shim/process.h"
#include "shim/record/trace_recorder.h"

namespace c10 {

// c10/core/Device.h. It is passed by value, in a register.
struct Device {
  std::int8_t type;
  std::int8_t index;
};
constexpr std::int8_t kCuda = 1;  // c10/core/DeviceType.h

// c10/core/Allocator.h. PyTorch has the first since 2.1, and had the second from 1.12 until then.
__attribute__((visibility("default"))) void reportMemoryUsageToProfiler(void* address,
                                                                        std::int64_t bytes,
                                                                        std::size_t all_allocated,
                                                                        std::size_t all_reserved,
                                                                        Device device);
__attribute__((visibility("default"))) void reportMemoryUsageToProfiler(void* address,
                                                                        std::int64_t bytes,
                                                                        std::int64_t all_allocated,
                                                                        std::int64_t all_reserved,
                                                                        Device device);

}  // namespace c10

namespace {

using cubfc::TraceRecorder;

// `bytes`: less than 0 for a tensor that the cache gets back.
void record(const void* address, std::int64_t bytes, c10::Device device, const void* caller) {
  cubfc::Process* const process = cubfc::Process::existing();
  TraceRecorder* const trace = process == nullptr ? nullptr : process->trace();
  if (trace == nullptr || !trace->records_tensors() || device.type != c10::kCuda ||
      address == nullptr) {
    return;
  }
  const cubfc::NoCancellation no_cancellation;
  const TraceRecorder::What what{
      .kind = bytes < 0 ? cubfc::trace::Kind::kTensorFree : cubfc::trace::Kind::kTensor,
      .address = reinterpret_cast<std::uintptr_t>(address),
      .bytes =
          bytes < 0 ? 0 - static_cast<std::uint64_t>(bytes) : static_cast<std::uint64_t>(bytes),
      .padding = static_cast<std::uint8_t>(device.index)};
  if (bytes >= 0) {
    trace->capture_stack(caller);
    trace->record_stack();
  }
  trace->record(what);
}

// PyTorch's function of this name, in the libc10.so that is loaded now; nullptr if there is none.
// libc10.so is the object that also exports c10::memoryProfilingEnabled(), which libcubfc.so does
// not. PyTorch's function may be called: libc10.so is fully loaded, since the object that has
// called here is linked with it. Each thread remembers the answer until an object is loaded or
// unloaded.
template <typename Function>
Function real_function(const char* name) {
  struct Found {
    std::uint64_t generation;
    void* function;
  };
  thread_local Found last{};
  const std::uint64_t generation = cubfc::objects_generation();
  if (last.function == nullptr || last.generation != generation) {
    const std::array names{name, "_ZN3c1022memoryProfilingEnabledEv"};
    std::array<void*, 2> found{};
    const bool is_there = cubfc::find_exported_together(names, found).end != 0;
    last = {generation, is_there ? found[0] : nullptr};
  }
  return reinterpret_cast<Function>(last.function);
}

// Records the tensor, and calls PyTorch's function of this name. Count: the type that this version
// of PyTorch passes.
template <typename Count>
void record_and_pass_on(const char* name, const void* caller, void* address, std::int64_t bytes,
                        Count all_allocated, Count all_reserved, c10::Device device) {
  record(address, bytes, device, caller);
  using Function = void (*)(void*, std::int64_t, Count, Count, c10::Device);
  if (const auto real = real_function<Function>(name)) {
    real(address, bytes, all_allocated, all_reserved, device);
  }
}

}  // namespace

namespace c10 {

void reportMemoryUsageToProfiler(void* address, std::int64_t bytes, std::size_t all_allocated,
                                 std::size_t all_reserved, Device device) {
  record_and_pass_on("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
                     __builtin_return_address(0), address, bytes, all_allocated, all_reserved,
                     device);
}

void reportMemoryUsageToProfiler(void* address, std::int64_t bytes, std::int64_t all_allocated,
                                 std::int64_t all_reserved, Device device) {
  record_and_pass_on("_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE",
                     __builtin_return_address(0), address, bytes, all_allocated, all_reserved,
                     device);
}

}  // namespace c10
