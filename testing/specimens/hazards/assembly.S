/* Code no compiler writes: functions shorter than a jump, one behind the other without padding; jumps into a function's
 * first bytes; counters in rcx only; operands relative to the instruction pointer; answers in flags; arguments in
 * registers that calls may change; a function that runs on into the next one. Next: flow.cpp checks the answers. */

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

    .data
asm_sum:
    .quad 0
    .section .rodata
asm_limit:
    .quad 1000
    .section .note.GNU-stack, "", @progbits
