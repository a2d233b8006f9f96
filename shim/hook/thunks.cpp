// The exported driver functions of libcubfc.so. Each jumps to its wrapper, which is in the file of
// its family. (libcubfc_sleep.so has gated_thunks.cpp in place of this file.)
#include "shim/hook/thunks.h"

#include "shim/driver/entry_points.h"

#define CUBFC_THUNK(name, base, version, per_thread, parameters)       \
  ".globl " #name "\n .type " #name ", %function\n .p2align 4\n" #name \
  ":\n"                                                                \
  " .cfi_startproc\n " CUBFC_MOVABLE CUBFC_JUMP " cubfc_" #name        \
  "\n .cfi_endproc\n"                                                  \
  " .size " #name ", . - " #name "\n"

__asm__(".pushsection .text\n" CUBFC_ENTRY_POINTS(CUBFC_THUNK) ".popsection\n");
