// A cache as PyTorch's libc10_cuda.so has it, as far as others see it: it takes a segment from the
// driver, and tells libc10.so of each tensor in it. Its caller says where tensors lie.
#include "tests/cli/report/fake_c10.h"

extern "C" {

// `allocate`: cuMemAlloc_v2. The segment's address, 0 where there is no memory.
EXPORTED std::uint64_t take_segment(int (*allocate)(std::uint64_t*, std::size_t),
                                    std::size_t bytes);
EXPORTED void tell_of_tensor(std::uint64_t address, std::int64_t bytes, int type, int index,
                             bool is_old);

std::uint64_t take_segment(int (*allocate)(std::uint64_t*, std::size_t), std::size_t bytes) {
  std::uint64_t address = 0;
  return allocate(&address, bytes) == 0 ? address : 0;
}

void tell_of_tensor(std::uint64_t address, std::int64_t bytes, int type, int index, bool is_old) {
  void* const there = reinterpret_cast<void*>(address);
  const c10::Device device{static_cast<std::int8_t>(type), static_cast<std::int8_t>(index)};
  if (is_old) {
    c10::reportMemoryUsageToProfiler(there, bytes, std::int64_t{11}, std::int64_t{22}, device);
  } else {
    c10::reportMemoryUsageToProfiler(there, bytes, std::size_t{11}, std::size_t{22}, device);
  }
}

}  // extern "C"
