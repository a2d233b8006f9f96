// dlsym, exported. It asks cubfc_route_dlsym (dlsym.cpp) whether the look-up is ours to answer. If not,
// it jumps to the real dlsym with the registers and the stack as the caller left them: RTLD_NEXT and
// RTLD_DEFAULT mean something relative to the caller, which dlsym knows by its return address.
//
//   struct { void* address; uintptr_t ours; } cubfc_route_dlsym(void* handle, const char* name, void* caller);
//   void* (*cubfc_real_dlsym)(void*, const char*);   set when cubfc_route_dlsym has returned

        .text
        .globl  dlsym
        .type   dlsym, %function
        .p2align 4
dlsym:
        .cfi_startproc
#if defined(__x86_64__)
        endbr64
        movq    (%rsp), %rdx
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    cubfc_route_dlsym
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rdx, %rdx
        jz      1f
        ret
1:      jmpq    *cubfc_real_dlsym(%rip)
#elif defined(__aarch64__)
        hint    #34                     // bti c
        stp     x29, x30, [sp, #-32]!
        .cfi_adjust_cfa_offset 32
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        mov     x2, x30
        bl      cubfc_route_dlsym
        cbnz    x1, 1f
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_remember_state
        .cfi_adjust_cfa_offset -32
        .cfi_restore x29
        .cfi_restore x30
        adrp    x16, cubfc_real_dlsym
        ldr     x16, [x16, :lo12:cubfc_real_dlsym]
        br      x16
1:      .cfi_restore_state
        ldp     x29, x30, [sp], #32
        .cfi_adjust_cfa_offset -32
        .cfi_restore x29
        .cfi_restore x30
        ret
#else
#error "cubfc runs on x86-64 and aarch64"
#endif
        .cfi_endproc
        .size   dlsym, . - dlsym

        .section .note.GNU-stack, "", %progbits
