// Stand-ins of PyTorch's two libraries, with the names and forms of its functions.
#pragma once

#include <cstddef>
#include <cstdint>

#define EXPORTED __attribute__((visibility("default")))

// What was told last, and how often.
struct Told {
  std::uint64_t calls;
  void* address;
  std::int64_t bytes;
  std::size_t all_allocated;
  std::size_t all_reserved;
  std::int8_t type;
  std::int8_t index;
};
extern "C" EXPORTED Told* told_to_profiler();

namespace c10 {

struct Device {
  std::int8_t type;
  std::int8_t index;
};
EXPORTED bool memoryProfilingEnabled();
EXPORTED void reportMemoryUsageToProfiler(void* address, std::int64_t bytes,
                                          std::size_t all_allocated, std::size_t all_reserved,
                                          Device device);
// Of PyTorch before 2.1.
EXPORTED void reportMemoryUsageToProfiler(void* address, std::int64_t bytes,
                                          std::int64_t all_allocated, std::int64_t all_reserved,
                                          Device device);

}  // namespace c10
