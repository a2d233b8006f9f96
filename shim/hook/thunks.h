// How an exported driver function begins, and whether a tool has patched it.
// Tools that watch allocations, such as UCX's memory hooks, overwrite the beginning of a driver
// function with a jump to their own function, and execute the overwritten instructions elsewhere.
// So the beginning must be long enough for a jump to any address, and must consist of instructions
// that such a tool can move: none that depends on its own address, none that a compiler just
// happens to emit.
#pragma once

#include <algorithm>
#include <array>

#if defined(__x86_64__)
// These set the result register, which has no meaning before a function returns. 15 bytes: a jump
// through a register takes 13.
#define CUBFC_MOVABLE "movl $0, %eax\n movl $0, %eax\n movl $0, %eax\n"
#define CUBFC_JUMP "jmp"
#elif defined(__aarch64__)
#define CUBFC_MOVABLE "nop\n nop\n nop\n nop\n nop\n"
#define CUBFC_JUMP "b"
#endif

namespace cubfc {

// Whether a tool has overwritten the beginning of this exported function. cubfc's cudaMalloc and
// cudaFree ask at each call. If so, they leave the call to the CUDA runtime, which calls the
// exported function, so that the tool sees the call. Reads the function's code; takes no lock.
inline bool is_replaced(const void* thunk) noexcept {
#if defined(__x86_64__)
  constexpr std::array<unsigned char, 5> kBeginning{0xb8, 0, 0, 0, 0};
#elif defined(__aarch64__)
  constexpr std::array<unsigned char, 4> kBeginning{0x1f, 0x20, 0x03, 0xd5};
#endif
  return !std::equal(kBeginning.begin(), kBeginning.end(),
                     static_cast<const volatile unsigned char*>(thunk));
}

}  // namespace cubfc
