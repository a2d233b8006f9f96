// What of PyTorch's libc10.so its cache tells of each block: counts it, for tensors_program.py.
#include <cstddef>
#include <cstdint>

#include "tests/cli/report/fake_c10.h"

namespace {
Told told{};
}

Told* told_to_profiler() {
  return &told;
}

namespace c10 {

bool memoryProfilingEnabled() {
  return false;
}

void reportMemoryUsageToProfiler(void* address, std::int64_t bytes, std::size_t all_allocated,
                                 std::size_t all_reserved, Device device) {
  told = {told.calls + 1, address, bytes, all_allocated, all_reserved, device.type, device.index};
}

void reportMemoryUsageToProfiler(void* address, std::int64_t bytes, std::int64_t all_allocated,
                                 std::int64_t all_reserved, Device device) {
  told = {told.calls + 1,
          address,
          bytes,
          static_cast<std::size_t>(all_allocated),
          static_cast<std::size_t>(all_reserved),
          device.type,
          device.index};
}

}  // namespace c10
