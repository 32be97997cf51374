//! Which instructions may fault: those that a program's fault handler may have to find where the compiler put them.
//!
//! A handler knows the place by its address (a load that it steps over, a page that it fills in), or looks for what
//! belongs to it in the unwind tables; moved code has neither. So only what is known not to fault counts as such: plain
//! arithmetic and moves of the basic instruction set, on registers, constants, the function's own stack frame, memory
//! beside the code, and words of the thread at fixed places. All else may: division, floating-point arithmetic,
//! any other memory, and what some processors lack. A call counts too: the function it calls may fault.
//!
//! Next: `instruction`, which asks; `site`, which leaves such instructions in place.

use crate::code::FunctionCode;
use crate::instruction::for_each_instruction;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
    UsedMemory,
};
use trimtab_types::ProcAddr;

/// Tells the instructions of one function that may fault.
pub(crate) struct Faults {
    info: InstructionInfoFactory,
    /// `rbp` is as far from the stack pointer throughout as the function's first instructions set it.
    has_frame_pointer: bool,
}

/// True if any of these instructions, which lie at `address`, may fault or calls. Nothing is known of the function
/// around them.
pub fn may_fault_in(bytes: &[u8], address: ProcAddr) -> bool {
    let mut faults = Faults { info: InstructionInfoFactory::new(), has_frame_pointer: false };
    let mut decoder = Decoder::with_ip(64, bytes, address.0, DecoderOptions::NONE);
    decoder.iter().any(|instruction| faults.may_fault(&instruction))
}

impl Faults {
    pub(crate) fn of(code: &FunctionCode<'_>) -> Faults {
        let mut info = InstructionInfoFactory::new();
        let mut frame = FramePointer::default();
        for_each_instruction(code, |instruction| frame.pass(code, instruction, &mut info));
        Faults { info, has_frame_pointer: frame.is_kept() }
    }

    /// True if it may fault, or calls.
    pub(crate) fn may_fault(&mut self, instruction: &Instruction) -> bool {
        let is_by_register = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register;
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => return true,
            FlowControl::IndirectBranch if is_by_register => return true,
            _ => {}
        }
        if !is_plain(instruction.mnemonic()) || uses_odd_registers(instruction) {
            return true;
        }
        // It reads the frame pointer's own frame, which its function has set up.
        if instruction.mnemonic() == Mnemonic::Leave {
            return false;
        }
        let (is_beside_code, has_frame_pointer) = (instruction.is_ip_rel_memory_operand(), self.has_frame_pointer);
        let used = self.info.info(instruction).used_memory();
        used.iter().any(|memory| !is_certain(memory, is_beside_code, has_frame_pointer))
    }
}

/// True if memory is there whatever the program does: its stack, its own data, the thread's own words.
fn is_certain(memory: &UsedMemory, is_beside_code: bool, has_frame_pointer: bool) -> bool {
    let is_flat = !matches!(memory.segment(), Register::FS | Register::GS);
    match (memory.base(), memory.index()) {
        (Register::RSP, Register::None) => is_flat,
        (Register::RBP, Register::None) => is_flat && has_frame_pointer,
        (Register::RIP, Register::None) => is_flat,
        (Register::None, Register::None) => (is_flat && is_beside_code) || memory.segment() == Register::FS,
        _ => false,
    }
}

/// True if it touches registers that not every program may write, or those of the old floating-point unit, which faults
/// at the instruction behind the one at fault.
fn uses_odd_registers(instruction: &Instruction) -> bool {
    let operands = 0..instruction.op_count();
    let mut registers = operands.filter(|&operand| instruction.op_kind(operand) == OpKind::Register);
    registers.any(|operand| {
        let register = instruction.op_register(operand);
        !(register.is_gpr() || register.is_xmm())
    })
}

/// A frame pointer: a function's first instructions set `rbp`, and nothing else writes to it until they are undone.
#[derive(Default)]
struct FramePointer {
    is_pushed: bool,
    is_set: bool,
    is_spoilt: bool,
    next: u64,
}

impl FramePointer {
    fn is_kept(&self) -> bool {
        self.is_set && !self.is_spoilt
    }

    fn pass(&mut self, code: &FunctionCode<'_>, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        let is_first = instruction.ip() == code.entry.0;
        let is_next = is_first || (self.next != 0 && instruction.ip() == self.next);
        self.next = 0;
        let is_push = instruction.mnemonic() == Mnemonic::Push && instruction.op0_register() == Register::RBP;
        let sets = instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_register() == Register::RBP
            && instruction.op1_register() == Register::RSP;
        if is_next && !self.is_set {
            let is_before = is_push || (is_first && instruction.mnemonic() == Mnemonic::Endbr64);
            self.is_pushed |= is_push;
            if is_before {
                self.next = instruction.next_ip();
            }
            if sets && self.is_pushed {
                self.is_set = true;
                return;
            }
        }
        let undoes = matches!(instruction.mnemonic(), Mnemonic::Pop | Mnemonic::Leave);
        self.is_spoilt |= !undoes && writes_frame_pointer(instruction, info);
    }
}

fn writes_frame_pointer(instruction: &Instruction, info: &mut InstructionInfoFactory) -> bool {
    let is_write =
        |access| !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
    let used = info.info(instruction).used_registers();
    used.iter().any(|used| used.register().full_register() == Register::RBP && is_write(used.access()))
}

/// True if the instruction faults by nothing but its memory operands, on any processor of this kind.
fn is_plain(mnemonic: Mnemonic) -> bool {
    is_plain_arithmetic(mnemonic) || is_plain_move(mnemonic) || is_plain_jump(mnemonic) || is_plain_vector(mnemonic)
}

fn is_plain_arithmetic(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Adc, Add, And, Bsf, Bsr, Bswap, Bt, Btc, Btr, Bts, Cbw, Cdq, Cdqe, Clc, Cmc, Cmp, Cqo, Cwd, Cwde, Dec, Imul,
        Inc, Lea, Mul, Neg, Not, Or, Rcl, Rcr, Rol, Ror, Sar, Sbb, Shl, Shld, Shr, Shrd, Stc, Sub, Test, Xor,
    };
    matches!(
        mnemonic,
        Adc | Add
            | And
            | Bsf
            | Bsr
            | Bswap
            | Bt
            | Btc
            | Btr
            | Bts
            | Cbw
            | Cdq
            | Cdqe
            | Clc
            | Cmc
            | Cmp
            | Cqo
            | Cwd
            | Cwde
            | Dec
            | Imul
            | Inc
            | Lea
            | Mul
            | Neg
            | Not
            | Or
            | Rcl
            | Rcr
            | Rol
            | Ror
            | Sar
            | Sbb
            | Shl
            | Shld
            | Shr
            | Shrd
            | Stc
            | Sub
            | Test
            | Xor
    )
}

fn is_plain_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Cmova, Cmovae, Cmovb, Cmovbe, Cmove, Cmovg, Cmovge, Cmovl, Cmovle, Cmovne, Cmovno, Cmovnp, Cmovns, Cmovo,
        Cmovp, Cmovs, Cmpxchg, Endbr64, Lahf, Leave, Mov, Movsx, Movsxd, Movzx, Nop, Pause, Pop, Push, Sahf, Seta,
        Setae, Setb, Setbe, Sete, Setg, Setge, Setl, Setle, Setne, Setno, Setnp, Setns, Seto, Setp, Sets, Xadd, Xchg,
    };
    matches!(
        mnemonic,
        Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovnp
            | Cmovns
            | Cmovo
            | Cmovp
            | Cmovs
            | Cmpxchg
            | Endbr64
            | Lahf
            | Leave
            | Mov
            | Movsx
            | Movsxd
            | Movzx
            | Nop
            | Pause
            | Pop
            | Push
            | Sahf
            | Seta
            | Setae
            | Setb
            | Setbe
            | Sete
            | Setg
            | Setge
            | Setl
            | Setle
            | Setne
            | Setno
            | Setnp
            | Setns
            | Seto
            | Setp
            | Sets
            | Xadd
            | Xchg
    )
}

fn is_plain_jump(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Ja, Jae, Jb, Jbe, Je, Jecxz, Jg, Jge, Jl, Jle, Jmp, Jne, Jno, Jnp, Jns, Jo, Jp, Jrcxz, Js, Loop, Loope, Loopne,
        Ret,
    };
    matches!(
        mnemonic,
        Ja | Jae
            | Jb
            | Jbe
            | Je
            | Jecxz
            | Jg
            | Jge
            | Jl
            | Jle
            | Jmp
            | Jne
            | Jno
            | Jnp
            | Jns
            | Jo
            | Jp
            | Jrcxz
            | Js
            | Loop
            | Loope
            | Loopne
            | Ret
    )
}

/// Moves and bitwise operations; arithmetic on floating-point numbers may fault. The strings' `movsd` has the name of a
/// vector move, and its memory tells it apart.
fn is_plain_vector(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Andnpd, Andnps, Andpd, Andps, Movapd, Movaps, Movd, Movdqa, Movdqu, Movhlps, Movhpd, Movhps, Movlhps, Movlpd,
        Movlps, Movq, Movsd, Movss, Movupd, Movups, Orpd, Orps, Pand, Pandn, Por, Pshufd, Punpckhqdq, Punpcklqdq, Pxor,
        Shufpd, Shufps, Unpckhpd, Unpckhps, Unpcklpd, Unpcklps, Xorpd, Xorps,
    };
    matches!(
        mnemonic,
        Andnpd
            | Andnps
            | Andpd
            | Andps
            | Movapd
            | Movaps
            | Movd
            | Movdqa
            | Movdqu
            | Movhlps
            | Movhpd
            | Movhps
            | Movlhps
            | Movlpd
            | Movlps
            | Movq
            | Movsd
            | Movss
            | Movupd
            | Movups
            | Orpd
            | Orps
            | Pand
            | Pandn
            | Por
            | Pshufd
            | Punpckhqdq
            | Punpcklqdq
            | Pxor
            | Shufpd
            | Shufps
            | Unpckhpd
            | Unpckhps
            | Unpcklpd
            | Unpcklps
            | Xorpd
            | Xorps
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodeRange;

    fn may_fault(before: &[u8], bytes: &[u8]) -> bool {
        let whole = [before, bytes].concat();
        let ranges = vec![CodeRange { addr: ProcAddr(0x1000), bytes: &whole, after: &[] }];
        let code = FunctionCode { entry: ProcAddr(0x1000), ranges, ..FunctionCode::default() };
        let at = 0x1000 + before.len() as u64;
        let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
        Faults::of(&code).may_fault(&decoder.decode())
    }

    const NOTHING: &[u8] = &[];
    /// `push rbp; mov rbp, rsp`.
    const FRAME: &[u8] = &[0x55, 0x48, 0x89, 0xe5];

    #[test]
    fn what_may_fault() {
        let rows: &[(&str, &[u8], &[u8], bool)] = &[
            ("load", NOTHING, &[0x8b, 0x07], true),
            ("store", NOTHING, &[0x89, 0x46, 0x04], true),
            ("load_of_a_fixed_address", NOTHING, &[0x8b, 0x04, 0x25, 0, 0, 0, 0], true),
            ("load_at_null_by_offset", NOTHING, &[0xa1, 0, 0, 0, 0, 0, 0, 0, 0], true),
            ("load_from_the_stack", NOTHING, &[0x8b, 0x44, 0x24, 0x08], false),
            ("load_from_an_array_on_the_stack", NOTHING, &[0x8b, 0x04, 0x84], true),
            ("load_beside_the_code", NOTHING, &[0x8b, 0x05, 0, 0x10, 0, 0], false),
            ("load_of_the_thread", NOTHING, &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], false),
            ("load_by_a_pointer_of_the_thread", NOTHING, &[0x64, 0x8b, 0x07], true),
            ("thread_word_by_the_stack_pointer", NOTHING, &[0x64, 0x8b, 0x04, 0x24], true),
            ("load_by_rbp", NOTHING, &[0x8b, 0x45, 0xfc], true),
            ("load_from_the_frame", FRAME, &[0x8b, 0x45, 0xfc], false),
            ("load_from_an_array_in_the_frame", FRAME, &[0x8b, 0x44, 0x85, 0xf0], true),
            ("frame_pointer_that_is_changed", &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xfd], &[0x8b, 0x45, 0xfc], true),
            ("frame_pointer_set_late", &[0x90, 0x55, 0x48, 0x89, 0xe5], &[0x8b, 0x45, 0xfc], true),
            ("frame_behind_a_marker", &[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5], &[0x8b, 0x45, 0xfc], false),
            ("push", NOTHING, &[0x55], false),
            ("push_from_memory", NOTHING, &[0xff, 0x37], true),
            ("pop_to_memory", NOTHING, &[0x8f, 0x07], true),
            ("leave", NOTHING, &[0xc9], false),
            ("return", NOTHING, &[0xc3], false),
            ("lea", NOTHING, &[0x8d, 0x04, 0x37], false),
            ("nop_with_an_operand", NOTHING, &[0x0f, 0x1f, 0x40, 0x00], false),
            ("add", NOTHING, &[0x01, 0xf8], false),
            ("division", NOTHING, &[0xf7, 0xf9], true),
            ("division_unsigned", NOTHING, &[0x48, 0xf7, 0xf1], true),
            ("multiplication", NOTHING, &[0x0f, 0xaf, 0xc7], false),
            ("sum_of_doubles", NOTHING, &[0xf2, 0x0f, 0x58, 0xc1], true),
            ("conversion", NOTHING, &[0xf2, 0x48, 0x0f, 0x2c, 0xc0], true),
            ("zeroing", NOTHING, &[0x66, 0x0f, 0xef, 0xc0], false),
            ("zeroing_of_the_old_kind", NOTHING, &[0x0f, 0xef, 0xc0], true),
            ("vector_load", NOTHING, &[0x0f, 0x28, 0x07], true),
            ("vector_from_the_stack", NOTHING, &[0x0f, 0x28, 0x04, 0x24], false),
            ("what_some_processors_lack", NOTHING, &[0xc5, 0xf8, 0x77], true),
            ("old_floating_point", NOTHING, &[0xd9, 0xc0], true),
            ("copy_of_a_string", NOTHING, &[0xf3, 0x48, 0xa5], true),
            ("copy_of_a_word", NOTHING, &[0xa5], true),
            ("call", NOTHING, &[0xe8, 0, 0, 0, 0], true),
            ("call_by_memory", NOTHING, &[0xff, 0x15, 0, 0, 0, 0], true),
            ("jump", NOTHING, &[0xeb, 0x00], false),
            ("branch", NOTHING, &[0x74, 0x00], false),
            ("jump_beside_the_code", NOTHING, &[0xff, 0x25, 0, 0, 0, 0], false),
            ("jump_by_memory", NOTHING, &[0xff, 0x60, 0x18], true),
            ("jump_by_register", NOTHING, &[0xff, 0xe0], true),
            ("segment_register", NOTHING, &[0x8e, 0xe0], true),
            ("trap", NOTHING, &[0x0f, 0x0b], true),
            ("system_call", NOTHING, &[0x0f, 0x05], true),
            ("clock", NOTHING, &[0x0f, 0x31], true),
        ];
        for (name, before, bytes, want) in rows {
            assert_eq!(may_fault(before, bytes), *want, "{name}");
        }
    }
}
