//! A function's instructions in address order, each with where control goes next and whether it may be moved.
//!
//! One linear decode per range. Compilers put no data among code on this platform, so the linear order is the
//! real one; `analyse` checks that every jump agrees with it and refuses the function if not.
//! Next: `flow` walks these, `site` chooses among them.

use crate::FunctionCode;
use crate::answers::{FlagUse, Scratch, computed_into};
use crate::call::IndirectCall;
use crate::faults::Faults;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use trimtab_types::ProcAddr;

/// The facts of one instruction that the rest of the crate needs. Functions have many of them, so it is kept small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) at: ProcAddr,
    /// The operand that `flow` needs: a target, or the bytes a return pops.
    operand: u64,
    pub(crate) len: u8,
    flow: Flow,
    /// Why it can't run elsewhere, if it can't.
    pub(crate) fixed: Option<Fixed>,
    /// A no-op or breakpoint that compilers and linkers fill gaps with.
    pub(crate) is_filler: bool,
    /// It begins with a `lock` prefix, which code may jump over.
    pub(crate) is_locked: bool,
    /// Its use of the arithmetic flags.
    pub(crate) flags: FlagUse,
    /// The scratch register that it computes anew, setting flags.
    pub(crate) computes: Option<Scratch>,
}

/// [`Next`] without its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Sequential,
    DirectCall,
    IndirectCall,
    Branch,
    Jump,
    IndirectJump,
    Return,
    Stop,
    Invalid,
}

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// On to the next instruction.
    Sequential,
    /// Into a call and back to the next instruction; the target if direct.
    Call(Option<ProcAddr>),
    /// Either on or to the target.
    Branch(ProcAddr),
    /// To the target.
    Jump(ProcAddr),
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
    /// It traps, enters the kernel or can't be expressed elsewhere.
    BadInstruction,
    Breakpoint,
    Trap,
    Halt,
    SystemCall,
    Transaction,
    NarrowOperand,
    FarJump,
    FarReturn,
    FarCall,
    /// The kernel knows its address.
    Restartable,
    /// A call whose operand depends on where the stack ends.
    StackCall,
    /// It may fault or calls, and the program's own fault handler must find it there.
    MayFault,
}

impl Fixed {
    /// In words.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Fixed::BadInstruction => "bad instruction",
            Fixed::Breakpoint => "breakpoint",
            Fixed::Trap => "trap",
            Fixed::Halt => "halt",
            Fixed::SystemCall => "system call",
            Fixed::Transaction => "transaction",
            Fixed::NarrowOperand => "32-bit relative operand",
            Fixed::FarJump => "far jump",
            Fixed::FarReturn => "far return",
            Fixed::FarCall => "far call",
            Fixed::Restartable => "restartable sequence",
            Fixed::StackCall => "call",
            Fixed::MayFault => "instruction that may fault",
        }
    }
}

impl Step {
    pub(crate) fn end(&self) -> ProcAddr {
        ProcAddr(self.at.0.wrapping_add(u64::from(self.len)))
    }

    /// Where control goes next.
    pub(crate) fn next(&self) -> Next {
        match self.flow {
            Flow::Sequential => Next::Sequential,
            Flow::DirectCall => Next::Call(Some(ProcAddr(self.operand))),
            Flow::IndirectCall => Next::Call(None),
            Flow::Branch => Next::Branch(ProcAddr(self.operand)),
            Flow::Jump => Next::Jump(ProcAddr(self.operand)),
            Flow::IndirectJump => Next::IndirectJump,
            Flow::Return => Next::Return(self.operand as u16),
            Flow::Stop => Next::Stop,
            Flow::Invalid => Next::Invalid,
        }
    }

    /// True if it is a call, to which the callee returns.
    pub(crate) fn is_call(&self) -> bool {
        matches!(self.flow, Flow::DirectCall | Flow::IndirectCall)
    }

    /// True if control may run on into the next instruction.
    pub(crate) fn continues(&self) -> bool {
        matches!(self.flow, Flow::Sequential | Flow::DirectCall | Flow::IndirectCall | Flow::Branch)
    }
}

/// A function's instructions in address order, and the addresses inside it that they name or use.
#[derive(Default)]
pub(crate) struct Decoded {
    pub(crate) steps: Vec<Step>,
    /// Operands of `lea` and immediates.
    pub(crate) named: Vec<ProcAddr>,
    /// Memory read or written at a fixed address.
    pub(crate) touched: Vec<ProcAddr>,
}

/// Average length of an instruction, rounded down, to guess how many there are.
const INSTRUCTION_LEN_USUAL: usize = 4;

/// Decodes all ranges.
pub(crate) fn decode(code: &FunctionCode<'_>) -> Decoded {
    let bytes_total: usize = code.ranges.iter().map(|range| range.bytes.len()).sum();
    let mut decoded = Decoded::default();
    decoded.steps.reserve(bytes_total / INSTRUCTION_LEN_USUAL + 1);
    let mut faults = code.faults_stay.then(|| Faults::of(code));
    for_each_instruction(code, |instruction| {
        let mut step = settled(step(instruction), code);
        if faults.as_mut().is_some_and(|faults| !step.is_filler && faults.may_fault(instruction)) {
            step.fixed = step.fixed.or(Some(Fixed::MayFault));
        }
        decoded.steps.push(step);
        if let Some(address) = named_address(instruction).map(ProcAddr).filter(|&address| code.contains(address)) {
            decoded.named.push(address);
        }
        if let Some(address) = touched_address(instruction).map(ProcAddr).filter(|&address| code.contains(address)) {
            decoded.touched.push(address);
        }
    });
    decoded
}

/// Held in place, and no filler, if the kernel knows where it is.
fn settled(step: Step, code: &FunctionCode<'_>) -> Step {
    // An instruction that ends where a sequence begins has told the kernel of it, and must not be left before it
    // begins.
    match code.first_restartable(step.at).is_some_and(|first| first <= step.end()) {
        true => Step { fixed: step.fixed.or(Some(Fixed::Restartable)), is_filler: false, ..step },
        false => step,
    }
}

/// All instructions of a function in address order; a byte that begins none counts as one of its own.
pub(crate) fn for_each_instruction(code: &FunctionCode<'_>, mut run: impl FnMut(&Instruction)) {
    let mut ranges = code.ranges.clone();
    ranges.sort_by_key(|range| range.addr);
    let mut instruction = Instruction::default();
    for range in &ranges {
        let mut decoder = Decoder::with_ip(64, range.bytes, range.addr.0, DecoderOptions::NONE);
        while decoder.can_decode() {
            let position = decoder.position();
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                instruction.set_len(1);
                resume_after(&mut decoder, position + 1, range.addr.0);
            }
            run(&instruction);
        }
    }
}

/// Every direct branch and call in `bytes`, which lie at `addr`, as (from, to). Slow for whole programs; see
/// [`crate::Stretches`].
pub fn direct_branches(bytes: &[u8], addr: ProcAddr) -> impl Iterator<Item = (ProcAddr, ProcAddr)> + '_ {
    let decoder = Decoder::with_ip(64, bytes, addr.0, DecoderOptions::NONE);
    decoder.into_iter().filter_map(|instruction| Some((ProcAddr(instruction.ip()), near_target(&instruction)?)))
}

/// Lengths of the filler instructions that `bytes` begins with.
pub(crate) fn filler_len(bytes: &[u8], addr: ProcAddr) -> usize {
    let mut decoder = Decoder::with_ip(64, bytes, addr.0, DecoderOptions::NONE);
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

/// True if the instruction does nothing and only fills a gap.
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
pub(crate) fn near_target(instruction: &Instruction) -> Option<ProcAddr> {
    matches!(instruction.op0_kind(), OpKind::NearBranch64).then(|| ProcAddr(instruction.near_branch64()))
}

fn resume_after(decoder: &mut Decoder<'_>, position: usize, range_addr: u64) {
    // `position` is at most the length that the decoder was made with, so this cannot fail.
    if decoder.set_position(position).is_ok() {
        decoder.set_ip(range_addr.wrapping_add(position as u64));
    }
}

fn step(instruction: &Instruction) -> Step {
    let next = next(instruction);
    let (flow, operand) = match next {
        Next::Sequential => (Flow::Sequential, 0),
        Next::Call(Some(target)) => (Flow::DirectCall, target.0),
        Next::Call(None) => (Flow::IndirectCall, 0),
        Next::Branch(target) => (Flow::Branch, target.0),
        Next::Jump(target) => (Flow::Jump, target.0),
        Next::IndirectJump => (Flow::IndirectJump, 0),
        Next::Return(pop) => (Flow::Return, pop.into()),
        Next::Stop => (Flow::Stop, 0),
        Next::Invalid => (Flow::Invalid, 0),
    };
    Step {
        at: ProcAddr(instruction.ip()),
        operand,
        len: instruction.len() as u8,
        flow,
        fixed: fixed(instruction, next),
        is_filler: next != Next::Invalid && is_filler(instruction),
        is_locked: instruction.has_lock_prefix(),
        flags: FlagUse::of(instruction),
        computes: computed_into(instruction),
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

fn fixed(instruction: &Instruction, next: Next) -> Option<Fixed> {
    Some(match instruction.mnemonic() {
        _ if next == Next::Invalid => Fixed::BadInstruction,
        Mnemonic::Int3 | Mnemonic::Int | Mnemonic::Int1 | Mnemonic::Into => Fixed::Breakpoint,
        Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2 => Fixed::Trap,
        Mnemonic::Hlt => Fixed::Halt,
        Mnemonic::Syscall | Mnemonic::Sysenter => Fixed::SystemCall,
        Mnemonic::Xbegin | Mnemonic::Xabort | Mnemonic::Xend => Fixed::Transaction,
        _ if instruction.flow_control() == FlowControl::Exception => Fixed::Trap,
        _ if matches!(instruction.memory_base(), Register::EIP) => Fixed::NarrowOperand,
        Mnemonic::Call if is_far(instruction) => Fixed::FarCall,
        Mnemonic::Call if instruction.is_call_near_indirect() && IndirectCall::of(instruction).is_none() => {
            Fixed::StackCall
        }
        _ if instruction.is_jmp_far_indirect() || instruction.is_jmp_far() => Fixed::FarJump,
        _ if next == Next::Stop => Fixed::FarReturn,
        _ => return None,
    })
}

fn is_far(instruction: &Instruction) -> bool {
    instruction.is_call_far() || instruction.is_call_far_indirect()
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
    match fixed(instruction, next(instruction)) {
        None => Ok(()),
        Some(fixed) => Err(crate::Refusal::Unmovable { at: ProcAddr(instruction.ip()), what: fixed.what() }),
    }
}
