# Every shape of symbol and unwind entry the reader must tell apart, with sizes and offsets known by hand.
# Links with -nostdlib; runs nowhere.
        .text
        .globl  _start
        .type   _start, @function
_start:
        .cfi_startproc
        .cfi_undefined rip
        call    typed
        hlt
        .cfi_endproc
        .size   _start, .-_start

# A typed function with three names; a local label in it; a cold part elsewhere.
        .p2align 4
        .globl  typed
        .type   typed, @function
        .globl  alias_global
        .type   alias_global, @function
        .weak   alias_weak
        .type   alias_weak, @function
typed:
alias_global:
alias_weak:
        .cfi_startproc
        push    %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset rbx, -16
label_in_typed:
        test    %edi, %edi
        jne     typed.cold
back_in_typed:
        pop     %rbx
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        .size   typed, .-typed

        .section .text.unlikely,"ax",@progbits
        .type   typed.cold, @function
typed.cold:
        .cfi_startproc
        .cfi_def_cfa_offset 16
        .cfi_offset rbx, -16
        call    untyped
        jmp     back_in_typed
        .cfi_endproc
        .size   typed.cold, .-typed.cold

# Part of a function, as typed.cold, but without any symbol.
        .cfi_startproc
        .cfi_def_cfa_offset 48
nameless_part_is_here:
        nop
        ud2
        .cfi_endproc

# Hand-written assembly: no type, but an unwind entry. Its size comes from there.
        .text
        .p2align 4
        .globl  untyped
untyped:
        .cfi_startproc
        nop
        nop
        ret
        .cfi_endproc

# The same, and not even global.
        .p2align 4
untyped_local:
        .cfi_startproc
        ret
        .cfi_endproc

# A typed function without size and without unwind entry: it reaches to the next symbol.
        .p2align 4
        .type   unsized_typed, @function
unsized_typed:
        nop
        ret
        .p2align 4

# Data in the text: no type, no unwind entry.
        .globl  data_in_text
data_in_text:
        .quad   0x1122334455667788
        .quad   0

# Two unwind entries in one function: the second one is no function.
        .globl  two_entries
        .type   two_entries, @function
two_entries:
        .cfi_startproc
        nop
        ret
        .cfi_endproc
second_entry:
        .cfi_startproc
        nop
        ret
        .cfi_endproc
        .size   two_entries, .-two_entries

# A signal trampoline: its entry begins one byte early, so that a return address in it is found.
        .p2align 4
        nop
        .cfi_startproc
        .cfi_signal_frame
        nop
        .cfi_def_cfa rsp, 160
        .globl  trampoline
        .type   trampoline, @function
trampoline:
        mov     $15, %eax
        syscall
        .cfi_endproc
        .size   trampoline, .-trampoline

# The frame base is kept in rbp for a while.
        .p2align 4
        .globl  framed
        .type   framed, @function
framed:
        .cfi_startproc
        push    %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        mov     %rsp, %rbp
        .cfi_def_cfa_register rbp
        nop
        pop     %rbp
        .cfi_def_cfa rsp, 8
        ret
        .cfi_endproc
        .size   framed, .-framed

# Four calls: the first passes exceptions through, the others land at pad_one, pad_two and (elsewhere) pad_cold.
        .p2align 4
        .globl  catcher
        .type   catcher, @function
catcher:
        .cfi_startproc
        .cfi_personality 0x9b, personality
        .cfi_lsda 0x1b, catcher_table
        push    %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset rbx, -16
call_through:
        call    untyped
call_one:
        call    untyped
call_two:
        call    untyped
call_end:
        pop     %rbx
        .cfi_remember_state
        .cfi_def_cfa_offset 8
        ret
        .cfi_restore_state
pad_one:
        nop
pad_two:
        jmp     call_end
        .cfi_endproc
        .size   catcher, .-catcher

        .section .gcc_except_table,"a",@progbits
        .p2align 2
catcher_table:
        .byte   0xff
        .byte   0xff
        .byte   0x01
        .uleb128 catcher_table_end-catcher_table_begin
catcher_table_begin:
        .uleb128 call_through-catcher
        .uleb128 call_one-call_through
        .uleb128 0
        .uleb128 0
        .uleb128 call_one-catcher
        .uleb128 call_two-call_one
        .uleb128 pad_one-catcher
        .uleb128 0
        .uleb128 call_two-catcher
        .uleb128 call_end-call_two
        .uleb128 pad_two-catcher
        .uleb128 1
catcher_table_end:

# A resolver.
        .text
        .p2align 4
        .globl  chosen
        .type   chosen, @gnu_indirect_function
chosen:
        .cfi_startproc
        lea     typed(%rip), %rax
        ret
        .cfi_endproc
        .size   chosen, .-chosen

        .data
        .p2align 3
        .globl  table
        .type   table, @object
        .globl  table_alias
        .type   table_alias, @object
table:
table_alias:
        .quad   1, 2, 3
        .size   table, .-table
        .size   table_alias, .-table_alias
        .globl  personality
        .type   personality, @object
personality:
        .quad   0
        .size   personality, .-personality
        .section .note.GNU-stack,"",@progbits
