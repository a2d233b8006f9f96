// The exported driver functions of libcubfc_sleep.so, in place of thunks.cpp: those that cubfc
// intercepts, and all others that need a gate. Each jumps to the address that a table has for it,
// at first that of a look-up. The look-up stores the address of the gate in the table, or that of
// the function itself if it needs no gate or CUBFC_SLEEP is not set.
#include <atomic>
#include <cstddef>

#include "shim/driver/driver.h"
#include "shim/hook/routes.h"
#include "shim/hook/thunks.h"
#include "shim/process.h"
#include "shim/sleep/gates.h"
#include "shim/sleep/linked.h"
#include "shim/sleep/linked_functions.h"

// NUMBER counts the functions, in the order of the two lists. The look-up gets the number, and
// leaves all registers that have arguments as they are.
#if defined(__x86_64__)
#define CUBFC_JUMP_BY_TABLE "jmp *(cubfc_linked_targets + 8 * NUMBER)(%rip)\n"
#define CUBFC_LOOK_UP " pushq $NUMBER\n jmp cubfc_look_up_linked\n"
#define CUBFC_LOOK_UP_ALL                                                        \
  "cubfc_look_up_linked:\n"                                                      \
  " pushq %rdi\n pushq %rsi\n pushq %rdx\n pushq %rcx\n pushq %r8\n pushq %r9\n" \
  " movq 48(%rsp), %rdi\n call cubfc_linked_function\n"                          \
  " popq %r9\n popq %r8\n popq %rcx\n popq %rdx\n popq %rsi\n popq %rdi\n"       \
  " addq $8, %rsp\n jmp *%rax\n"
#elif defined(__aarch64__)
#define CUBFC_JUMP_BY_TABLE                       \
  "adrp x16, cubfc_linked_targets + 8 * NUMBER\n" \
  " ldr x16, [x16, :lo12:cubfc_linked_targets + 8 * NUMBER]\n br x16\n"
#define CUBFC_LOOK_UP " mov w9, #NUMBER\n b cubfc_look_up_linked\n"
#define CUBFC_LOOK_UP_ALL                                                          \
  "cubfc_look_up_linked:\n"                                                        \
  " stp x29, x30, [sp, #-80]!\n mov x29, sp\n"                                     \
  " stp x0, x1, [sp, #16]\n stp x2, x3, [sp, #32]\n stp x4, x5, [sp, #48]\n"       \
  " stp x6, x7, [sp, #64]\n mov x0, x9\n bl cubfc_linked_function\n mov x16, x0\n" \
  " ldp x0, x1, [sp, #16]\n ldp x2, x3, [sp, #32]\n ldp x4, x5, [sp, #48]\n"       \
  " ldp x6, x7, [sp, #64]\n ldp x29, x30, [sp], #80\n br x16\n"
#endif

#define CUBFC_THUNK_TEXT(symbol)                                                            \
  ".globl " symbol "\n .type " symbol ", %function\n .p2align 4\n" symbol                   \
  ":\n .cfi_startproc\n " CUBFC_MOVABLE CUBFC_JUMP_BY_TABLE " .cfi_endproc\n .size " symbol \
  ", . - " symbol "\n .set NUMBER, NUMBER + 1\n"
#define CUBFC_LOOK_UP_TEXT ".p2align 4\n" CUBFC_LOOK_UP " .set NUMBER, NUMBER + 1\n"
#define CUBFC_ROW_TEXT ".quad cubfc_look_up_thunks + 16 * NUMBER\n .set NUMBER, NUMBER + 1\n"

// A name of cuda.h's may be a macro, so it must become text at once.
#define CUBFC_THUNK(name, base, version, per_thread, parameters) CUBFC_THUNK_TEXT(#name)
#define CUBFC_LINKED_THUNK(name) CUBFC_THUNK_TEXT(#name)
#define CUBFC_LOOK_UP_THUNK(name, base, version, per_thread, parameters) CUBFC_LOOK_UP_TEXT
#define CUBFC_LINKED_LOOK_UP_THUNK(name) CUBFC_LOOK_UP_TEXT
#define CUBFC_TABLE_ROW(name, base, version, per_thread, parameters) CUBFC_ROW_TEXT
#define CUBFC_LINKED_TABLE_ROW(name) CUBFC_ROW_TEXT

__asm__(".pushsection .text\n .set NUMBER, 0\n"  //
        CUBFC_ENTRY_POINTS(CUBFC_THUNK) CUBFC_LINKED_FUNCTIONS(
            CUBFC_LINKED_THUNK) ".p2align 4\n cubfc_look_up_thunks:\n .set NUMBER, 0\n"  //
        CUBFC_ENTRY_POINTS(CUBFC_LOOK_UP_THUNK)
            CUBFC_LINKED_FUNCTIONS(CUBFC_LINKED_LOOK_UP_THUNK)  //
        CUBFC_LOOK_UP_ALL
        ".popsection\n"
        ".pushsection .data\n .p2align 3\n .globl cubfc_linked_targets\n"
        " .hidden cubfc_linked_targets\n cubfc_linked_targets:\n .set NUMBER, 0\n"  //
        CUBFC_ENTRY_POINTS(CUBFC_TABLE_ROW)
            CUBFC_LINKED_FUNCTIONS(CUBFC_LINKED_TABLE_ROW) ".popsection\n");

extern "C" {
__attribute__((visibility("hidden"))) extern std::atomic<void*> cubfc_linked_targets[];
__attribute__((visibility("hidden"))) void* cubfc_linked_function(std::size_t number) noexcept;
#define CUBFC_DECLARE_LINKED(name) \
  void exported_##name() __asm__(#name) __attribute__((visibility("default")));
CUBFC_LINKED_FUNCTIONS(CUBFC_DECLARE_LINKED)
#undef CUBFC_DECLARE_LINKED
}

namespace cubfc {
namespace {

struct Linked {
  std::string_view name;
  void* thunk;
  void* wrapper;  // cubfc's own, if there is one
};
#define CUBFC_ROW(name, base, version, per_thread, parameters) \
  {#name, reinterpret_cast<void*>(&wrapper::exported_##name),  \
   reinterpret_cast<void*>(&wrapper::cubfc_##name)},
#define CUBFC_LINKED_ROW(name) {#name, reinterpret_cast<void*>(&exported_##name), nullptr},
const Linked kAll[] = {CUBFC_ENTRY_POINTS(CUBFC_ROW) CUBFC_LINKED_FUNCTIONS(CUBFC_LINKED_ROW)};
#undef CUBFC_ROW
#undef CUBFC_LINKED_ROW

CUresult no_such_function() {
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace

void* linked_thunk(std::string_view name) noexcept {
  for (const Linked& each : kAll) {
    if (each.name == name) {
      return each.thunk;
    }
  }
  return nullptr;
}

}  // namespace cubfc

// What the exported function of this number calls from now on. Not entered in the table while the
// program has loaded no driver.
void* cubfc_linked_function(std::size_t number) noexcept {
  using namespace cubfc;
  const Linked& linked = kAll[number];
  const Driver* const driver = Driver::find();
  void* function = linked.wrapper;
  if (function == nullptr) {
    function = driver == nullptr ? nullptr : driver->function_named(linked.name.data());
  }
  if (function == nullptr) {
    return reinterpret_cast<void*>(&no_such_function);
  }
  if (Process::can_sleep()) {
    function = gates::in_front_of(linked.name, function);
  }
  if (driver != nullptr) {
    cubfc_linked_targets[number].store(function, std::memory_order_release);
  }
  return function;
}
