// dlopen, exported. It asks cubfc_fit_file_to_open (dlopen.cpp) which file is meant, and jumps to the
// real dlopen with the stack as the caller left it: a name without a folder is looked for where the
// caller's own object says, which dlopen knows by its return address.
//
//   const char* cubfc_fit_file_to_open(const char* file);
//   void* (*cubfc_fit_real_dlopen)(const char*, int);   set when cubfc_fit_file_to_open has returned

        .text
        .globl  dlopen
        .type   dlopen, %function
        .p2align 4
dlopen:
        .cfi_startproc
#if defined(__x86_64__)
        endbr64
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        call    cubfc_fit_file_to_open
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        movq    %rax, %rdi
        jmpq    *cubfc_fit_real_dlopen(%rip)
#elif defined(__aarch64__)
        hint    #34                     // bti c
        stp     x29, x30, [sp, #-32]!
        .cfi_adjust_cfa_offset 32
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        mov     x29, sp
        str     x1, [sp, #16]
        bl      cubfc_fit_file_to_open
        ldr     x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_adjust_cfa_offset -32
        .cfi_restore x29
        .cfi_restore x30
        adrp    x16, cubfc_fit_real_dlopen
        ldr     x16, [x16, :lo12:cubfc_fit_real_dlopen]
        br      x16
#else
#error "dlopen is written for x86-64 and for 64-bit Arm"
#endif
        .cfi_endproc
        .size   dlopen, . - dlopen
        .section .note.GNU-stack, "", %progbits
