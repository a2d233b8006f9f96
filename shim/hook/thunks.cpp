// The exported driver functions. Each jumps to its wrapper, which is in the file of its family.
// Tools that watch allocations, such as UCX's memory hooks, overwrite the beginning of a driver
// function with a jump to their own function, and execute the overwritten instructions elsewhere.
// So the beginning must be long enough for a jump to any address, and must consist of instructions
// that such a tool can move: none that depends on its own address, none that a compiler just
// happens to emit.
#include "shim/hook/thunks.h"

#include <algorithm>
#include <array>

#include "shim/driver/entry_points.h"

#if defined(__x86_64__)
// These set the result register, which has no meaning before a function returns. 15 bytes: a jump
// through a register takes 13.
#define CUBFC_MOVABLE "movl $0, %eax\n movl $0, %eax\n movl $0, %eax\n"
#define CUBFC_JUMP "jmp"
#elif defined(__aarch64__)
#define CUBFC_MOVABLE "nop\n nop\n nop\n nop\n nop\n"
#define CUBFC_JUMP "b"
#endif

#define CUBFC_THUNK(name, base, version, per_thread, parameters)       \
  ".globl " #name "\n .type " #name ", %function\n .p2align 4\n" #name \
  ":\n"                                                                \
  " .cfi_startproc\n " CUBFC_MOVABLE CUBFC_JUMP " cubfc_" #name        \
  "\n .cfi_endproc\n"                                                  \
  " .size " #name ", . - " #name "\n"

__asm__(".pushsection .text\n" CUBFC_ENTRY_POINTS(CUBFC_THUNK) ".popsection\n");

namespace cubfc {

bool is_replaced(const void* thunk) noexcept {
#if defined(__x86_64__)
  constexpr std::array<unsigned char, 5> kBeginning{0xb8, 0, 0, 0, 0};
#elif defined(__aarch64__)
  constexpr std::array<unsigned char, 4> kBeginning{0x1f, 0x20, 0x03, 0xd5};
#endif
  return !std::equal(kBeginning.begin(), kBeginning.end(),
                     static_cast<const volatile unsigned char*>(thunk));
}

}  // namespace cubfc
