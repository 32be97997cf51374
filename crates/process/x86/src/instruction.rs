//! A function's instructions in address order, each with where control goes next and whether it may be moved.
//!
//! One linear decode per range. Compilers put no data among code on this platform, so the linear order is the
//! real one; `analyse` checks that every jump agrees with it and refuses the function if not.
//! Next: `flow` walks these, `site` chooses among them.

use crate::FunctionCode;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// What the rest of the crate needs to know of one instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) at: u64,
    pub(crate) len: u8,
    pub(crate) next: Next,
    /// Why it can't run elsewhere, if it can't.
    pub(crate) fixed: Option<Fixed>,
    /// A no-op or breakpoint that compilers and linkers fill gaps with.
    pub(crate) is_filler: bool,
    /// An address it names: the operand of a `lea`, or an immediate.
    pub(crate) names: Option<u64>,
    /// Memory it reads or writes at a fixed address.
    pub(crate) touches: Option<u64>,
}

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// On to the next instruction.
    Sequential,
    /// Into a call and back to the next instruction; the target if direct.
    Call(Option<u64>),
    /// Either on or to the target.
    Branch(u64),
    /// To the target.
    Jump(u64),
    /// To an address in a register or in memory.
    IndirectJump,
    /// To the caller, popping this many more bytes.
    Return(u16),
    /// Nowhere: a trap.
    Stop,
    /// Not an instruction.
    Invalid,
}

/// Why an instruction must stay where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fixed {
    /// It leaves its own address on the stack.
    Call,
    /// It traps, enters the kernel or can't be expressed elsewhere.
    Unmovable(&'static str),
}

impl Step {
    pub(crate) fn end(&self) -> u64 {
        self.at.wrapping_add(u64::from(self.len))
    }

    /// Whether control may run on into the next instruction.
    pub(crate) fn continues(&self) -> bool {
        matches!(self.next, Next::Sequential | Next::Call(_) | Next::Branch(_))
    }
}

/// Decodes all ranges. Returns the steps and the decoded instructions, both in address order.
pub(crate) fn decode(code: &FunctionCode<'_>) -> (Vec<Step>, Vec<Instruction>) {
    let mut ranges = code.ranges.clone();
    ranges.sort_by_key(|range| range.addr);
    let bytes_total: usize = ranges.iter().map(|range| range.bytes.len()).sum();
    let mut steps = Vec::with_capacity(bytes_total / 4);
    let mut decoded = Vec::with_capacity(bytes_total / 4);
    for range in &ranges {
        let mut decoder = Decoder::with_ip(64, range.bytes, range.addr, DecoderOptions::NONE);
        while decoder.can_decode() {
            let position = decoder.position();
            let mut instruction = decoder.decode();
            if instruction.is_invalid() {
                instruction.set_len(1);
                resume_after(&mut decoder, position + 1, range.addr);
            }
            steps.push(step(&instruction));
            decoded.push(instruction);
        }
    }
    (steps, decoded)
}

/// Every direct branch and call in `bytes`, which lie at `addr`, as (from, to). Ranges of a whole file give the
/// branches from one function into the middle of another, which [`FunctionCode::outside_branches`] asks for.
pub fn direct_branches(bytes: &[u8], addr: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
    let decoder = Decoder::with_ip(64, bytes, addr, DecoderOptions::NONE);
    decoder.into_iter().filter_map(|instruction| Some((instruction.ip(), near_target(&instruction)?)))
}

/// Lengths of the filler instructions that `bytes` begins with.
pub(crate) fn filler_len(bytes: &[u8], addr: u64) -> usize {
    let mut decoder = Decoder::with_ip(64, bytes, addr, DecoderOptions::NONE);
    let mut len = 0;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() || !is_filler(&instruction) {
            break;
        }
        len = decoder.position();
    }
    len
}

/// Whether the instruction does nothing and only fills a gap.
pub(crate) fn is_filler(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Nop | Mnemonic::Int3 => true,
        // Older assemblers fill with `xchg ax, ax` and with `lea rsi, [rsi+0]` kinds.
        Mnemonic::Xchg => instruction.op0_register() == Register::AX && instruction.op1_register() == Register::AX,
        Mnemonic::Lea => {
            instruction.op0_register().is_gpr64()
                && instruction.memory_base() == instruction.op0_register()
                && instruction.memory_displacement64() == 0
                && matches!(instruction.memory_index(), Register::None)
        }
        _ => false,
    }
}

/// The direct target of a near branch.
pub(crate) fn near_target(instruction: &Instruction) -> Option<u64> {
    matches!(instruction.op0_kind(), OpKind::NearBranch64).then(|| instruction.near_branch64())
}

fn resume_after(decoder: &mut Decoder<'_>, position: usize, range_addr: u64) {
    // `position` is at most the length that the decoder was made with, so this cannot fail.
    if decoder.set_position(position).is_ok() {
        decoder.set_ip(range_addr.wrapping_add(position as u64));
    }
}

fn step(instruction: &Instruction) -> Step {
    Step {
        at: instruction.ip(),
        len: instruction.len() as u8,
        next: next(instruction),
        fixed: fixed(instruction),
        is_filler: !instruction.is_invalid() && is_filler(instruction),
        names: named_address(instruction),
        touches: touched_address(instruction),
    }
}

fn next(instruction: &Instruction) -> Next {
    if instruction.is_invalid() {
        return Next::Invalid;
    }
    let target = near_target(instruction);
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::Interrupt => Next::Sequential,
        FlowControl::Call | FlowControl::IndirectCall => match instruction.mnemonic() {
            Mnemonic::Call => Next::Call(target),
            _ => Next::Sequential,
        },
        FlowControl::ConditionalBranch => target.map_or(Next::Stop, Next::Branch),
        FlowControl::UnconditionalBranch => target.map_or(Next::Stop, Next::Jump),
        FlowControl::IndirectBranch => Next::IndirectJump,
        FlowControl::Return => next_of_return(instruction),
        FlowControl::XbeginXabortXend => target.map_or(Next::Sequential, Next::Branch),
        FlowControl::Exception => Next::Stop,
    }
}

fn next_of_return(instruction: &Instruction) -> Next {
    match instruction.code() {
        Code::Retnq => Next::Return(0),
        Code::Retnq_imm16 => Next::Return(instruction.immediate16()),
        // sysret, iret and far returns do not occur in programs; nothing follows them.
        _ => Next::Stop,
    }
}

fn fixed(instruction: &Instruction) -> Option<Fixed> {
    let what = match instruction.mnemonic() {
        _ if instruction.is_invalid() => "bad instruction",
        Mnemonic::Call => return Some(Fixed::Call),
        Mnemonic::Int3 | Mnemonic::Int | Mnemonic::Int1 | Mnemonic::Into => "breakpoint",
        Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2 => "trap",
        Mnemonic::Hlt => "halt",
        Mnemonic::Syscall | Mnemonic::Sysenter => "system call",
        Mnemonic::Xbegin | Mnemonic::Xabort | Mnemonic::Xend => "transaction",
        _ if instruction.flow_control() == FlowControl::Exception => "trap",
        _ if matches!(instruction.memory_base(), Register::EIP) => "32-bit relative operand",
        _ if instruction.is_jmp_far_indirect() || instruction.is_jmp_far() => "far jump",
        _ if next(instruction) == Next::Stop => "far return",
        _ => return None,
    };
    Some(Fixed::Unmovable(what))
}

fn named_address(instruction: &Instruction) -> Option<u64> {
    if instruction.mnemonic() == Mnemonic::Lea {
        return fixed_memory(instruction);
    }
    (0..instruction.op_count()).find_map(|operand| match instruction.op_kind(operand) {
        OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64 => Some(instruction.immediate(operand)),
        _ => None,
    })
}

fn touched_address(instruction: &Instruction) -> Option<u64> {
    if matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
        return None;
    }
    fixed_memory(instruction)
}

/// The address of a memory operand that no register decides.
fn fixed_memory(instruction: &Instruction) -> Option<u64> {
    if !(0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory) {
        return None;
    }
    if instruction.is_ip_rel_memory_operand() {
        return Some(instruction.ip_rel_memory_address());
    }
    let is_absolute = instruction.memory_base() == Register::None
        && instruction.memory_index() == Register::None
        && !matches!(instruction.memory_segment(), Register::FS | Register::GS);
    is_absolute.then(|| instruction.memory_displacement64())
}

/// Refuses an instruction that must stay where it is.
pub(crate) fn check_movable(instruction: &Instruction) -> Result<(), crate::Refusal> {
    let at = instruction.ip();
    match fixed(instruction) {
        None => Ok(()),
        Some(Fixed::Call) => Err(crate::Refusal::CallDisplaced { patch: at, at }),
        Some(Fixed::Unmovable(what)) => Err(crate::Refusal::Unmovable { at, what }),
    }
}
