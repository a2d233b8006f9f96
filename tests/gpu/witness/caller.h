// Who made the driver call that this thread is in, found by walking its stack. Knows what is loaded
// in the process; nothing of CUDA's functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace witness {

enum class Caller {
  kCubfc,      // a function of libcubfc.so called the driver
  kPastCubfc,  // something else did: the stack was walked to its end
  kUnknown     // something else did, as it seems, but the walk broke off
};
inline constexpr std::size_t kCallers = 3;

// The innermost frames, the driver's and CUPTI's included.
struct Stack {
  std::array<std::uintptr_t, 32> addresses;
  std::size_t depth = 0;
};

struct Finding {
  Caller caller = Caller::kUnknown;
  Stack stack;
};

/// Reads which libraries are loaded. Throws bad_alloc. To be called once CUPTI is loaded.
void learn_objects();

/// Of the driver call that this thread is in. Any thread; takes no lock but the C library's for the
/// list of loaded libraries, and that only while there is no libcubfc.so.
Finding find_caller() noexcept;

/// "libcuda.so.1: cuMemAlloc_v2+0x1f", or "program: 0x1234" where no symbol is known. Takes the
/// dynamic linker's lock.
std::string text_of(std::uintptr_t address);

}  // namespace witness
