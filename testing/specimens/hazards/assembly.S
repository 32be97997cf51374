/* Code no compiler writes: functions shorter than a jump, one behind the other without padding; jumps into a function's
 * first bytes; counters in rcx only; operands relative to the instruction pointer; answers in flags; arguments in
 * registers that calls may change; a function that runs on into the next one; restartable sequences. Next: flow.cpp checks the answers. */

    .text
    .macro function name
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    .endm
    .macro done name
    .cfi_endproc
    .size \name, . - \name
    .endm

function asm_nothing /* one byte */
    ret
done asm_nothing

function asm_same /* four bytes */
    mov %rdi, %rax
    ret
done asm_same

function asm_seven /* six bytes */
    mov $7, %eax
    ret
done asm_seven

/* rdi: how often; the loop goes back to the second instruction, two bytes behind the entry */
function asm_loop_into_entry
    xor %eax, %eax
1:  add $1, %rax
    dec %rdi
    jnz 1b
    ret
done asm_loop_into_entry

/* rdi: how often; the loop goes back to the entry itself */
function asm_loop_to_entry
    add %rdi, asm_sum(%rip)
    dec %rdi
    jnz asm_loop_to_entry
    mov asm_sum(%rip), %rax
    movq $0, asm_sum(%rip)
    ret
done asm_loop_to_entry

/* jrcxz and loop reach 127 bytes and have no longer form */
function asm_count_in_rcx
    mov %rdi, %rcx
    xor %eax, %eax
    jrcxz 2f
1:  add %rcx, %rax
    loop 1b
2:  ret
done asm_count_in_rcx

/* compares with memory near the instruction, answers in the carry flag */
function asm_is_below
    cmp asm_limit(%rip), %rdi
    ret
done asm_is_below

/* calls it and keeps the flag */
function asm_asks_flag
    call asm_is_below
    setc %al
    movzx %al, %eax
    ret
done asm_asks_flag

/* arguments in r10, r11 and rax, as a static chain, a linker's stub or a count of vectors would be */
function asm_odd_arguments
    lea (%r10, %r11, 2), %r10
    lea (%r10, %rax, 4), %rax
    ret
done asm_odd_arguments

function asm_passes_odd
    mov %rdi, %r10
    mov %rsi, %r11
    mov %rdx, %rax
    jmp asm_odd_arguments /* and it is a tail call */
done asm_passes_odd

/* runs on into the next function */
function asm_runs_on
    add $100, %rdi
    nop
    nop
done asm_runs_on
function asm_next
    lea 1(%rdi), %rax
    ret
done asm_next

/* calls the place behind the call, to learn where it is */
function asm_where_am_i
    call 1f
1:  .cfi_adjust_cfa_offset 8
    pop %rax
    .cfi_adjust_cfa_offset -8
    lea 1b(%rip), %rdx
    sub %rdx, %rax
    ret
done asm_where_am_i

/* touches no vector, mask or x87 register: whoever calls it by hand may count on that */
function asm_bystander
    mov %rdi, %rax
    add %rdi, %rax
    xor $5, %rax
    ret
done asm_bystander

/* A restartable sequence from one place to another, left for a third. */
    .macro sequence name from to abort
    .balign 32
\name:
    .long 0, 0
    .quad \from, \to - \from, \abort
    .endm
/* What the kernel looks for before the third: the operand of a no-op. */
    .macro mark
    .byte 0x0f, 0x1f, 0x05
    .long 0x53053053
    .endm

/* The sum of 1 to rdi. Its exit has no room but in the loop, in which nearly all time passes: bytes that are the program's
   and a springboard in turn. No padding is near. */
function asm_sums
    mov $1, %eax
    xor %edx, %edx
1:  cmp %rdi, %rax
    jg 2f
    add %rax, %rdx
    inc %rax
    jmp 1b
2:  mov %rdx, %rax
    ret
done asm_sums

/* rdi: counters, 64 bytes apart; rsi: the thread's struct rseq. Adds one to this processor's counter, exactly once. */
function asm_adds_here
    mov $50, %r8d
.Lhere_again:
    lea asm_sequence_here(%rip), %rax
    mov %rax, 8(%rsi)
.Lhere_from:
    mov 4(%rsi), %eax
    shl $6, %rax
    mov (%rdi, %rax), %rcx
    mov %r8d, %edx
1:  dec %edx
    jnz 1b
    inc %rcx
    mov %rcx, (%rdi, %rax)
.Lhere_to:
    mov $1, %eax
    ret
    mark
.Lhere_abort:
    jmp .Lhere_again
done asm_adds_here

/* The same; rdx: the sequence. Nothing is before it and after it, and it answers 0 if it was interrupted. */
function asm_adds_barely
    mov %rdx, 8(%rsi)
.Lbarely_from:
    mov 4(%rsi), %ecx
    shl $6, %rcx
    mov $1, %eax
    incq (%rdi, %rcx)
.Lbarely_to:
    ret
    mark
.Lbarely_abort:
    xor %eax, %eax
    ret
done asm_adds_barely

    .section __rseq_cs, "aw"
sequence asm_sequence_here, .Lhere_from, .Lhere_to, .Lhere_abort
    .section __rseq_cs_ptr_array, "aw"
    .quad asm_sequence_here, asm_sequence_barely
    .section .data.rel.ro, "aw"
    .globl asm_sequence_barely
    .hidden asm_sequence_barely
sequence asm_sequence_barely, .Lbarely_from, .Lbarely_to, .Lbarely_abort
    .data
asm_sum:
    .quad 0
    .section .rodata
asm_limit:
    .quad 1000
    .section .note.GNU-stack, "", @progbits
