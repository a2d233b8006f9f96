// The code of the gates (gates.h), which differ in a number, and in whether they are wide:
//
//   gate:     cell.calls += 1; result = target[number](all arguments); cell.calls -= 1; return result
//   stopped:  result = cubfc_at_stopped_gate(the first six arguments, number);
//             result != 0 ? return result : go on at function[number] with all arguments
//
// target[number] is function[number] while the gate is open, and `stopped` of that number while it
// is not. The narrow gates, which come first, are for functions whose arguments are all in
// registers: six, on aarch64 eight. A wide gate also passes on arguments on the stack: five, on
// aarch64 three. cuLaunchKernel has eleven in all, and no function of memory_contents.h has more (a
// test sees to it). If a function has fewer, the gate copies words that mean nothing from the
// caller's frame. A function without arguments on the stack must not get a wide gate: it may be
// called where the stack ends. None of the functions takes a floating-point argument.

#include "shim/sleep/gate_count.h"

#if defined(__x86_64__)

// What all gates do before and after the call.
.macro begin_gate
  .p2align 6
  .cfi_startproc
  movq cubfc_gate_cell@gottpoff(%rip), %rax
  addl $1, %fs:8(%rax)
.endm
.macro end_gate
  movq cubfc_gate_cell@gottpoff(%rip), %rdx
  subl $1, %fs:8(%rdx)
  ret
  .cfi_endproc
  .set number, number + 1
.endm

  .text
  .globl cubfc_gates
  .hidden cubfc_gates
  .type cubfc_gates, %function
  .p2align 6
cubfc_gates:
  .set number, 0
  .rept CUBFC_NARROW_GATES
  begin_gate
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call *(cubfc_gate_targets + 8 * number)(%rip)
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  end_gate
  .endr
  .globl cubfc_wide_gates
  .hidden cubfc_wide_gates
  .p2align 6
cubfc_wide_gates:
  .rept CUBFC_WIDE_GATES
  begin_gate
  .rept 5
  pushq 40(%rsp)
  .cfi_adjust_cfa_offset 8
  .endr
  call *(cubfc_gate_targets + 8 * number)(%rip)
  addq $40, %rsp
  .cfi_adjust_cfa_offset -40
  end_gate
  .endr
  .size cubfc_gates, . - cubfc_gates
  .globl cubfc_gates_end
  .hidden cubfc_gates_end
cubfc_gates_end:

  .globl cubfc_stopped_gates
  .hidden cubfc_stopped_gates
  .type cubfc_stopped_gates, %function
  .p2align 4
cubfc_stopped_gates:
  .set number, 0
  .rept CUBFC_NARROW_GATES + CUBFC_WIDE_GATES
  .p2align 4
  .cfi_startproc
  pushq $number
  .cfi_adjust_cfa_offset 8
  jmp cubfc_stopped_gate
  .cfi_endproc
  .set number, number + 1
  .endr
  .size cubfc_stopped_gates, . - cubfc_stopped_gates

  .type cubfc_stopped_gate, %function
cubfc_stopped_gate:
  .cfi_startproc
  .cfi_adjust_cfa_offset 8
  .irp register, %r9, %r8, %rcx, %rdx, %rsi, %rdi
  pushq \register
  .cfi_adjust_cfa_offset 8
  .endr
  movq %rsp, %rdi
  movq 48(%rsp), %rsi
  call cubfc_at_stopped_gate
  .irp register, %rdi, %rsi, %rdx, %rcx, %r8, %r9
  popq \register
  .cfi_adjust_cfa_offset -8
  .endr
  testl %eax, %eax
  jne 1f
  popq %rax
  .cfi_adjust_cfa_offset -8
  leaq cubfc_gate_functions(%rip), %r11
  jmp *(%r11, %rax, 8)
  .cfi_adjust_cfa_offset 8
1:
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size cubfc_stopped_gate, . - cubfc_stopped_gate

#elif defined(__aarch64__)

// Leaves the address of the thread's cell in x9. Changes x10.
.macro cell
  mrs x9, tpidr_el0
  adrp x10, :gottprel:cubfc_gate_cell
  ldr x10, [x10, :gottprel_lo12:cubfc_gate_cell]
  add x9, x9, x10
.endm

// What all gates do before the call, for it, and after it.
.macro begin_gate
  .p2align 7
  .cfi_startproc
  cell
  ldr w10, [x9, #8]
  add w10, w10, #1
  str w10, [x9, #8]
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset 29, -16
  .cfi_offset 30, -8
.endm
.macro call_target
  adrp x16, cubfc_gate_targets + 8 * number
  ldr x16, [x16, :lo12:cubfc_gate_targets + 8 * number]
  blr x16
.endm
.macro end_gate
  ldp x29, x30, [sp], #16
  .cfi_def_cfa 31, 0
  cell
  ldr w10, [x9, #8]
  sub w10, w10, #1
  str w10, [x9, #8]
  ret
  .cfi_endproc
  .set number, number + 1
.endm

  .text
  .globl cubfc_gates
  .hidden cubfc_gates
  .type cubfc_gates, %function
  .p2align 7
cubfc_gates:
  .set number, 0
  .rept CUBFC_NARROW_GATES
  begin_gate
  call_target
  end_gate
  .endr
  .globl cubfc_wide_gates
  .hidden cubfc_wide_gates
  .p2align 7
cubfc_wide_gates:
  .rept CUBFC_WIDE_GATES
  begin_gate
  mov x29, sp
  .cfi_def_cfa_register 29
  ldp x10, x11, [x29, #16]
  ldr x12, [x29, #32]
  sub sp, sp, #32
  stp x10, x11, [sp]
  str x12, [sp, #16]
  call_target
  mov sp, x29
  end_gate
  .endr
  .size cubfc_gates, . - cubfc_gates
  .globl cubfc_gates_end
  .hidden cubfc_gates_end
cubfc_gates_end:

  .globl cubfc_stopped_gates
  .hidden cubfc_stopped_gates
  .type cubfc_stopped_gates, %function
  .p2align 4
cubfc_stopped_gates:
  .set number, 0
  .rept CUBFC_NARROW_GATES + CUBFC_WIDE_GATES
  .p2align 4
  mov w9, #number
  b cubfc_stopped_gate
  .set number, number + 1
  .endr
  .size cubfc_stopped_gates, . - cubfc_stopped_gates

  .type cubfc_stopped_gate, %function
cubfc_stopped_gate:
  .cfi_startproc
  stp x29, x30, [sp, #-96]!
  .cfi_def_cfa_offset 96
  .cfi_offset 29, -96
  .cfi_offset 30, -88
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x9, [sp, #80]
  add x0, sp, #16
  mov x1, x9
  bl cubfc_at_stopped_gate
  mov w10, w0
  ldr x9, [sp, #80]
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldp x29, x30, [sp], #96
  .cfi_def_cfa_offset 0
  cbnz w10, 1f
  adrp x16, cubfc_gate_functions
  add x16, x16, :lo12:cubfc_gate_functions
  ldr x16, [x16, x9, lsl #3]
  br x16
1:
  mov w0, w10
  ret
  .cfi_endproc
  .size cubfc_stopped_gate, . - cubfc_stopped_gate

#endif

  .section .note.GNU-stack, "", %progbits
