//! Code that is followed with the values that memory and registers have now, without being run: a small interpreter.
//!
//! Nothing is written to the process: stores are kept aside. An instruction that is not known makes unknown what it writes to;
//! only what leads control or memory astray ends it. Each comparison of something that was read is noted where it decides, and one
//! of them may be taken to turn out the other way.
//!
//! Next: `called`, which asks by this when a function will say that a loop is over.

use crate::lent::is_write;
use crate::linear::{CALL_CHANGES, number_of, opposite};
use crate::side::{LoadWord, Sides, goes_on, is_real_comparison, is_signed, real};
use iced_x86::{
    ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind,
    Register,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Instructions that are followed for one answer,
const STEPS_MAX: u32 = 1500;
/// and in a function that the called one calls, before it is taken to do nothing of interest: of those that are left so many parts,
const NESTED_PART: (u32, u32) = (2, 3);
/// and deeper inside so many at most.
const DEEP_STEPS_MAX: u32 = 150;
/// Those for all answers at one moment.
const STEPS_TOGETHER_MAX: u32 = 40_000;
/// A function that the loop calls, and one that it calls, go on where something is not known.
const GUESSED_DEPTH_MAX: u32 = 2;
/// Calls inside of calls.
const DEPTH_MAX: u32 = 12;
/// The stack of the code that is followed, where no process has memory.
const STACK: u64 = 0x6fff_ffff_ffff_f000;
/// The place of the word that guards frames, from the thread's own address (System V ABI, as gcc and clang have it).
const GUARD_AT: u64 = 0x28;
/// The longest instruction.
const INSTRUCTION_BYTES: usize = 15;

/// The code and memory of a process at one moment, each word read once.
pub(crate) struct Snapshot<'a> {
    load: LoadWord<'a>,
    /// The loop's own code, which a probe may have changed in memory, and its address.
    own: (u64, &'a [u8]),
    words: RefCell<BTreeMap<(u64, u32), Option<u64>>>,
    instructions: RefCell<BTreeMap<u64, Instruction>>,
    steps_left: Cell<u32>,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn new(load: LoadWord<'a>, own: (u64, &'a [u8])) -> Snapshot<'a> {
        let steps_left = Cell::new(STEPS_TOGETHER_MAX);
        Snapshot { load, own, words: RefCell::default(), instructions: RefCell::default(), steps_left }
    }

    fn word(&self, address: u64, bytes: u32) -> Option<u64> {
        *self.words.borrow_mut().entry((address, bytes)).or_insert_with(|| (self.load)(address, bytes))
    }

    fn instruction(&self, at: u64) -> Option<Instruction> {
        if let Some(known) = self.instructions.borrow().get(&at) {
            return Some(*known);
        }
        let own =
            at.checked_sub(self.own.0).and_then(|from| self.own.1.get(from as usize..)).filter(|own| !own.is_empty());
        let code = match own {
            Some(own) => own[..own.len().min(INSTRUCTION_BYTES)].to_vec(),
            None => {
                let halves = [self.word(at, 8)?, self.word(at.wrapping_add(8), 8).unwrap_or(0)];
                halves.into_iter().flat_map(u64::to_le_bytes).take(INSTRUCTION_BYTES).collect()
            }
        };
        let one = Decoder::with_ip(64, &code, at, DecoderOptions::NONE).decode();
        if one.is_invalid() {
            return None;
        }
        self.instructions.borrow_mut().insert(at, one);
        Some(one)
    }
}

/// A number, and whether it depends on something that was read, or is made of numbers of the code alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) bits: u64,
    pub(crate) is_read: bool,
}

impl Number {
    pub(crate) fn read(bits: u64) -> Number {
        Number { bits, is_read: true }
    }

    fn of_code(bits: u64) -> Number {
        Number { bits, is_read: false }
    }
}

/// The last thing that set the flags.
#[derive(Clone, Copy, Debug)]
enum Flags {
    Unknown,
    /// A comparison of whole numbers, or a number as it compares with zero.
    Whole {
        left: u64,
        right: u64,
        bits: u32,
        is_read: bool,
    },
    /// A sum or the like: only whether it is zero or negative is known.
    Sum {
        value: u64,
        bits: u32,
        is_read: bool,
    },
    /// Numbers with a fraction.
    Real {
        left: f64,
        right: f64,
        is_read: bool,
    },
}

/// Registers, flags, and what was stored.
#[derive(Clone)]
struct Held {
    registers: [Option<Number>; 16],
    /// The lower 64 bits of vector registers.
    vectors: [Option<Number>; 32],
    flags: Flags,
    /// The address of the instruction that set them.
    flags_from: u64,
    /// By address; `None`: stored, and not known.
    stored: BTreeMap<u64, Option<(u8, bool)>>,
    /// The sides of what decided, in order; `None`: something that is not known, taken not to jump.
    decided: Vec<Option<Sides>>,
}

/// Two addresses of a loop between which a flag stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resume {
    /// Behind the code that sets it.
    pub(crate) at: u64,
    /// Before the code that asks for it.
    pub(crate) from: u64,
}

/// Code on its way.
pub(crate) struct Followed<'a> {
    snapshot: &'a Snapshot<'a>,
    held: Held,
    /// The decision that turns out the other way, by its number and the address of its comparison: a call that is skipped in the end
    /// has others of the same number.
    turned: Option<(usize, u64)>,
    steps_left: u32,
    /// Calls of the code itself are taken to leave memory alone.
    skips_calls: bool,
    /// So many decisions came before a flag was set: those behind are of the flag itself.
    deciding: Option<usize>,
}

/// Where it came to.
pub(crate) struct Outcome {
    /// True if the branch at the end jumps; `None`: it can't be followed that far.
    pub(crate) is_jump: Option<bool>,
    /// The sides of what decided on the way, in order; `None`: it is not known what they are.
    pub(crate) decided: Vec<Option<Sides>>,
}

impl<'a> Followed<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot<'a>,
        registers: [Option<Number>; 16],
        turned: Option<(usize, u64)>,
    ) -> Self {
        let mut registers = registers;
        // Code that lies in a frame is followed with that frame's own stack.
        registers[4].get_or_insert(Number::read(STACK));
        let (flags, flags_from, stored, decided) = (Flags::Unknown, 0, BTreeMap::new(), Vec::new());
        let held = Held { registers, vectors: [None; 32], flags, flags_from, stored, decided };
        Followed { snapshot, held, turned, steps_left: STEPS_MAX, skips_calls: false, deciding: None }
    }

    /// Goes on from one address to the conditional branch at another, or as far as it can be followed. Code between the
    /// addresses of `resume` is left out.
    pub(crate) fn go(mut self, from: u64, branch: u64, resume: Option<Resume>) -> Outcome {
        self.skips_calls = resume.is_some();
        let is_jump = self.jumps(from, branch, resume);
        let mut decided = self.held.decided;
        decided.truncate(self.deciding.unwrap_or(usize::MAX));
        Outcome { is_jump, decided }
    }

    fn jumps(&mut self, from: u64, branch: u64, mut resume: Option<Resume>) -> Option<bool> {
        let mut at = from;
        loop {
            if let Some(there) = resume.take_if(|resume| resume.at == at) {
                self.deciding = Some(self.held.decided.len());
                at = there.from;
            }
            if at == branch && resume.is_none() {
                break;
            }
            at = self.step(&self.snapshot.instruction(at)?, 0)?;
        }
        self.decide(self.snapshot.instruction(branch)?.condition_code(), 0)
    }

    /// Follows one instruction; the address of the next.
    fn step(&mut self, one: &Instruction, depth: u32) -> Option<u64> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        self.snapshot.steps_left.set(self.snapshot.steps_left.get().checked_sub(1)?);
        match one.flow_control() {
            FlowControl::Next => {
                self.compute(one)?;
                Some(one.next_ip())
            }
            FlowControl::UnconditionalBranch => Some(one.near_branch_target()),
            FlowControl::IndirectBranch => Some(self.operand(one, 0)?.bits),
            FlowControl::ConditionalBranch => match self.decide(one.condition_code(), depth)? {
                true => Some(one.near_branch_target()),
                false => Some(one.next_ip()),
            },
            FlowControl::Call => self.call(one, one.near_branch_target(), depth),
            FlowControl::IndirectCall => {
                let target = self.operand(one, 0)?.bits;
                self.call(one, target, depth)
            }
            _ => None,
        }
    }

    /// A function that is called is followed. One inside of it that can't be is taken to leave memory alone: its result is unknown.
    fn call(&mut self, one: &Instruction, target: u64, depth: u32) -> Option<u64> {
        if depth >= DEPTH_MAX || (depth == 0 && self.skips_calls) {
            return self.skip_call(one);
        }
        if depth == 0 {
            return self.function(one, target, 1);
        }
        let (before, left) = (self.held.clone(), self.steps_left);
        let given = left * NESTED_PART.0 / NESTED_PART.1;
        let given = if depth == 1 { given } else { given.min(DEEP_STEPS_MAX) };
        self.steps_left = given;
        let returned = self.function(one, target, depth + 1);
        self.steps_left = left - (given - self.steps_left);
        returned.or_else(|| {
            self.held = before;
            self.skip_call(one)
        })
    }

    fn skip_call(&mut self, one: &Instruction) -> Option<u64> {
        CALL_CHANGES.iter().for_each(|number| self.held.registers[usize::from(*number)] = None);
        self.held.vectors = [None; 32];
        self.held.flags = Flags::Unknown;
        Some(one.next_ip())
    }

    fn function(&mut self, call: &Instruction, target: u64, depth: u32) -> Option<u64> {
        self.push(Some(Number::of_code(call.next_ip())))?;
        let mut at = target;
        loop {
            let one = self.snapshot.instruction(at)?;
            if one.flow_control() == FlowControl::Return {
                return Some(self.pop()?.bits).filter(|to| *to == call.next_ip());
            }
            at = self.step(&one, depth)?;
        }
    }

    /// True if a condition holds; one of something that was read is noted. Where it is not known, as what a skipped call returned, it
    /// is taken not to, but deep inside.
    fn decide(&mut self, condition: ConditionCode, depth: u32) -> Option<bool> {
        let (holds, sides) = match holds(self.held.flags, condition) {
            Some(holds) => match sides(self.held.flags, condition, holds, self.held.flags_from) {
                Some(sides) => (holds, Some(sides)),
                None => return Some(holds),
            },
            None if (1..=GUESSED_DEPTH_MAX).contains(&depth) => (false, None),
            None => return None,
        };
        let is_turned = self.turned == Some((self.held.decided.len(), compared_at(sides.as_ref())));
        self.held.decided.push(sides);
        Some(holds != is_turned)
    }

    /// Follows an instruction that leads to the next one.
    fn compute(&mut self, one: &Instruction) -> Option<()> {
        if self.moves(one)? || self.computes(one)? || self.computes_reals(one)? {
            return Some(());
        }
        // An instruction that is not known.
        let mut info = InstructionInfoFactory::new();
        let info = info.info(one);
        if info.used_memory().iter().any(|used| is_write(used.access())) {
            return None;
        }
        for used in info.used_registers().iter().filter(|used| is_write(used.access())) {
            self.forget(used.register());
        }
        if one.rflags_modified() != 0 {
            self.held.flags = Flags::Unknown;
        }
        Some(())
    }

    fn forget(&mut self, register: Register) {
        if let Some(number) = number_of(register) {
            self.held.registers[number] = None;
        } else if register.is_vector_register() {
            self.held.vectors[register.number()] = None;
        }
    }

    /// Moves, loads, stores and the stack. True if it is one.
    fn moves(&mut self, one: &Instruction) -> Option<bool> {
        use Mnemonic::*;
        let bits = |operand: u32| bits_of(one, operand);
        // As `sete`, and `cmove` of two operands.
        let is_conditional = one.condition_code() != ConditionCode::None;
        match one.mnemonic() {
            Mov | Movzx => {
                let value = self.operand(one, 1);
                self.put(one, value)?;
            }
            Movsx | Movsxd => {
                let value = self.operand(one, 1).map(|held| Number { bits: signed(held.bits, bits(1)) as u64, ..held });
                self.put(one, value)?;
            }
            Lea => {
                let address = self.address(one, 1).map(Number::read);
                self.put(one, address)?;
            }
            Push => {
                let value = self.operand(one, 0);
                self.push(value)?;
            }
            Pop => {
                let value = self.pop();
                self.put(one, value)?;
            }
            Leave => {
                self.held.registers[4] = self.held.registers[5];
                self.held.registers[5] = self.pop();
            }
            Cdqe => {
                self.held.registers[0] =
                    self.held.registers[0].map(|held| Number { bits: held.bits as i32 as u64, ..held })
            }
            Nop | Endbr64 => {}
            _ if is_conditional && one.op_count() == 1 => {
                let value = self.decide(one.condition_code(), 0).map(|holds| Number::of_code(holds.into()));
                self.put(one, value)?;
            }
            _ if is_conditional => {
                let value = match self.decide(one.condition_code(), 0) {
                    Some(true) => self.operand(one, 1),
                    Some(false) => self.operand(one, 0),
                    None => None,
                };
                self.put(one, value)?;
            }
            _ => return Some(false),
        }
        Some(true)
    }

    /// Whole numbers. True if it is one.
    fn computes(&mut self, one: &Instruction) -> Option<bool> {
        use Mnemonic::*;
        let mnemonic = one.mnemonic();
        let is_known = matches!(
            mnemonic,
            Add | Sub | And | Or | Xor | Inc | Dec | Neg | Shl | Sal | Shr | Sar | Imul | Cmp | Test
        );
        if !is_known || mnemonic == Imul && one.op_count() == 1 {
            return Some(false);
        }
        let is_cleared = matches!(mnemonic, Xor | Sub)
            && one.op0_kind() == OpKind::Register
            && one.op1_kind() == OpKind::Register
            && one.op0_register() == one.op1_register();
        let (left, right) = match one.op_count() {
            _ if is_cleared => (Some(Number::of_code(0)), Some(Number::of_code(0))),
            1 => (self.operand(one, 0), Some(Number::of_code(1))),
            3 => (self.operand(one, 1), self.operand(one, 2)),
            _ => (self.operand(one, 0), self.operand(one, 1)),
        };
        let bits = bits_of(one, 0);
        let both = left.zip(right);
        self.held.flags_from = one.ip();
        self.held.flags = both.map_or(Flags::Unknown, |(left, right)| flags_of(mnemonic, left, right, bits));
        if !matches!(mnemonic, Cmp | Test) {
            let value = both.and_then(|(left, right)| {
                let value = result(mnemonic, left.bits, right.bits, bits)?;
                Some(Number { bits: masked(value, bits), is_read: left.is_read || right.is_read })
            });
            self.put(one, value)?;
        }
        Some(true)
    }

    /// Numbers with a fraction. True if it is one.
    fn computes_reals(&mut self, one: &Instruction) -> Option<bool> {
        use Mnemonic::*;
        let last = one.op_count().wrapping_sub(1);
        match one.mnemonic() {
            Movsd | Movss | Movapd | Movaps | Movq | Movd | Movups | Movupd | Movdqa | Movdqu | Vmovsd | Vmovss
            | Vmovapd | Vmovaps | Vmovq | Vmovd | Vmovups | Vmovupd | Vmovdqa | Vmovdqu
                if one.op_count() == 2 =>
            {
                let value = self.operand(one, 1);
                self.put(one, value)?;
            }
            // The lower number is the last operand's.
            Vmovsd | Vmovss => {
                let value = self.operand(one, 2);
                self.put(one, value)?;
            }
            Pxor | Xorpd | Xorps | Vpxor | Vxorpd | Vxorps if is_same(one, last) => {
                self.put(one, Some(Number::of_code(0)))?
            }
            _ if is_real_comparison(one) => {
                let is_double = !is_single(one.mnemonic());
                let both = self.operand(one, 0).zip(self.operand(one, 1));
                self.held.flags_from = one.ip();
                self.held.flags = both.map_or(Flags::Unknown, |(left, right)| {
                    let is_read = left.is_read || right.is_read;
                    Flags::Real { left: real(left.bits, is_double), right: real(right.bits, is_double), is_read }
                });
            }
            Cvtsi2sd | Cvtsi2ss | Vcvtsi2sd | Vcvtsi2ss => {
                let is_double = matches!(one.mnemonic(), Cvtsi2sd | Vcvtsi2sd);
                let value = self.operand(one, last).map(|held| {
                    let value = signed(held.bits, bits_of(one, last)) as f64;
                    Number { bits: bits_of_real(value, is_double), ..held }
                });
                self.put(one, value)?;
            }
            Cvtss2sd | Cvtsd2ss | Vcvtss2sd | Vcvtsd2ss => {
                let is_double = matches!(one.mnemonic(), Cvtsd2ss | Vcvtsd2ss);
                let value = self
                    .operand(one, last)
                    .map(|held| Number { bits: bits_of_real(real(held.bits, is_double), !is_double), ..held });
                self.put(one, value)?;
            }
            mnemonic => {
                let Some((compute, is_double)) = real_operation(mnemonic) else { return Some(false) };
                let both = self.operand(one, last - 1).zip(self.operand(one, last));
                let value = both.map(|(left, right)| {
                    let value = compute(real(left.bits, is_double), real(right.bits, is_double));
                    Number { bits: bits_of_real(value, is_double), is_read: left.is_read || right.is_read }
                });
                self.put(one, value)?;
            }
        }
        Some(true)
    }

    fn push(&mut self, value: Option<Number>) -> Option<()> {
        let top = self.held.registers[4]?.bits.wrapping_sub(8);
        self.held.registers[4] = Some(Number::read(top));
        self.store(top, 8, value);
        Some(())
    }

    fn pop(&mut self) -> Option<Number> {
        let top = self.held.registers[4]?.bits;
        self.held.registers[4] = Some(Number::read(top.wrapping_add(8)));
        self.load(top, 8)
    }

    /// The value of an operand, as wide as it is; `None`: not known.
    fn operand(&self, one: &Instruction, operand: u32) -> Option<Number> {
        let bits = bits_of(one, operand);
        let held = match one.op_kind(operand) {
            OpKind::Register => match one.op_register(operand) {
                register if is_high(register) => None,
                register if register.is_vector_register() => self.held.vectors[register.number()],
                register => self.held.registers[number_of(register)?],
            },
            OpKind::Memory if is_guard(one) => Some(Number::of_code(0)),
            OpKind::Memory => self.load(self.address(one, operand)?, bits / 8),
            _ => one.try_immediate(operand).ok().map(Number::of_code),
        };
        held.map(|held| Number { bits: masked(held.bits, bits), ..held })
    }

    fn address(&self, one: &Instruction, operand: u32) -> Option<u64> {
        one.virtual_address(operand, 0, |register, _, _| match register {
            Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
            Register::FS | Register::GS => None,
            register => Some(self.held.registers[number_of(register)?]?.bits),
        })
    }

    /// Writes to the first operand. `None`: it is memory of which the address is not known.
    fn put(&mut self, one: &Instruction, value: Option<Number>) -> Option<()> {
        let bits = bits_of(one, 0);
        if one.op0_kind() == OpKind::Memory {
            let address = self.address(one, 0)?;
            self.store(address, one.memory_size().size() as u32, value);
            return Some(());
        }
        let register = one.op0_register();
        if register.is_vector_register() {
            self.held.vectors[register.number()] = value;
            return Some(());
        }
        let at = number_of(register)?;
        self.held.registers[at] = match bits {
            32 | 64 => value.map(|value| Number { bits: masked(value.bits, bits), ..value }),
            _ if is_high(register) => None,
            // The rest of the register stays; nobody who compares a byte looks at it.
            _ => value.map(|value| {
                let rest = self.held.registers[at].map_or(0, |held| held.bits & !masked(u64::MAX, bits));
                Number { bits: rest | masked(value.bits, bits), ..value }
            }),
        };
        Some(())
    }

    fn load(&self, address: u64, bytes: u32) -> Option<Number> {
        let is_stored = |at: &u64| self.held.stored.contains_key(&address.wrapping_add(*at));
        if !(1..=8).contains(&bytes) {
            return None;
        } else if !(0..u64::from(bytes)).any(|at| is_stored(&at)) {
            return self.snapshot.word(address, bytes).map(Number::read);
        }
        let mut number = Number::of_code(0);
        for at in (0..u64::from(bytes)).rev() {
            let at = address.wrapping_add(at);
            let (byte, is_read) = match self.held.stored.get(&at) {
                Some(stored) => (*stored)?,
                None => (self.snapshot.word(at, 1)? as u8, true),
            };
            number = Number { bits: number.bits << 8 | u64::from(byte), is_read: number.is_read || is_read };
        }
        Some(number)
    }

    fn store(&mut self, address: u64, bytes: u32, value: Option<Number>) {
        for at in 0..bytes {
            let byte = value.map(|value| (if at < 8 { (value.bits >> (8 * at)) as u8 } else { 0 }, value.is_read));
            self.held.stored.insert(address.wrapping_add(at.into()), byte.filter(|_| at < 8));
        }
    }
}

/// The address of a comparison in the code that is followed; 0: it is not known what is compared.
pub(crate) fn compared_at(sides: Option<&Sides>) -> u64 {
    sides.map_or(0, |sides| sides.compared_at)
}

/// The word by which functions check that their frame is whole; no comparison of it decides anything.
fn is_guard(one: &Instruction) -> bool {
    let is_named = one.memory_base() == Register::None && one.memory_index() == Register::None;
    one.memory_segment() == Register::FS && is_named && one.memory_displacement64() == GUARD_AT
}

/// The bits of an operand that are looked at: of a vector those of its first number.
fn bits_of(one: &Instruction, operand: u32) -> u32 {
    use Mnemonic::{Cvtsi2sd, Cvtsi2ss, Movd, Vcvtsi2sd, Vcvtsi2ss, Vmovd};
    let is_single = matches!(one.mnemonic(), Movd | Vmovd | Cvtsi2ss | Vcvtsi2ss) || is_single(one.mnemonic());
    match one.op_kind(operand) {
        OpKind::Register if one.op_register(operand).is_vector_register() => match is_single {
            true => 32,
            false => 64,
        },
        OpKind::Register => one.op_register(operand).size() as u32 * 8,
        OpKind::Memory if one.mnemonic() == Mnemonic::Lea => 64,
        OpKind::Memory => match one.memory_size().size() as u32 * 8 {
            // Of a vector in memory the first number is followed.
            128 | 256 | 512 => 64,
            bits => bits,
        },
        _ if operand > 0 && !matches!(one.mnemonic(), Cvtsi2sd | Vcvtsi2sd) => bits_of(one, 0),
        _ => 64,
    }
}

fn is_single(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Movss
            | Vmovss
            | Comiss
            | Ucomiss
            | Vcomiss
            | Vucomiss
            | Addss
            | Subss
            | Mulss
            | Divss
            | Vaddss
            | Vsubss
            | Vmulss
            | Vdivss
    )
}

/// The second byte of a register, which is not followed.
fn is_high(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}

/// True if an instruction of vectors has the same register as its last two operands.
fn is_same(one: &Instruction, last: u32) -> bool {
    let register = |operand| (one.op_kind(operand) == OpKind::Register).then(|| one.op_register(operand));
    last > 0 && register(last).is_some() && register(last) == register(last - 1)
}

type OfReals = fn(f64, f64) -> f64;

fn real_operation(mnemonic: Mnemonic) -> Option<(OfReals, bool)> {
    use Mnemonic::*;
    Some(match mnemonic {
        Addsd | Vaddsd => (|left, right| left + right, true),
        Addss | Vaddss => (|left, right| left + right, false),
        Subsd | Vsubsd => (|left, right| left - right, true),
        Subss | Vsubss => (|left, right| left - right, false),
        Mulsd | Vmulsd => (|left, right| left * right, true),
        Mulss | Vmulss => (|left, right| left * right, false),
        Divsd | Vdivsd => (|left, right| left / right, true),
        Divss | Vdivss => (|left, right| left / right, false),
        _ => return None,
    })
}

fn bits_of_real(value: f64, is_double: bool) -> u64 {
    if is_double { value.to_bits() } else { (value as f32).to_bits().into() }
}

fn masked(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

fn signed(value: u64, bits: u32) -> i64 {
    let above = 64 - bits.clamp(1, 64);
    (value << above) as i64 >> above
}

fn result(mnemonic: Mnemonic, left: u64, right: u64, bits: u32) -> Option<u64> {
    use Mnemonic::*;
    let shift = (right & if bits == 64 { 63 } else { 31 }) as u32;
    Some(match mnemonic {
        Add | Inc => left.wrapping_add(right),
        Sub | Dec => left.wrapping_sub(right),
        And => left & right,
        Or => left | right,
        Xor => left ^ right,
        Neg => 0_u64.wrapping_sub(left),
        Shl | Sal => left << shift,
        Shr => masked(left, bits) >> shift,
        Sar => (signed(left, bits) >> shift) as u64,
        Imul => signed(left, bits).wrapping_mul(signed(right, bits)) as u64,
        _ => return None,
    })
}

fn flags_of(mnemonic: Mnemonic, left: Number, right: Number, bits: u32) -> Flags {
    use Mnemonic::{And, Cmp, Or, Sub, Test, Xor};
    let is_read = left.is_read || right.is_read;
    let of_zero = |value: u64| Flags::Whole { left: masked(value, bits), right: 0, bits, is_read };
    match mnemonic {
        Cmp | Sub => Flags::Whole { left: masked(left.bits, bits), right: masked(right.bits, bits), bits, is_read },
        Test | And => of_zero(left.bits & right.bits),
        Or => of_zero(left.bits | right.bits),
        Xor => of_zero(left.bits ^ right.bits),
        _ => match result(mnemonic, left.bits, right.bits, bits) {
            Some(value) => Flags::Sum { value: masked(value, bits), bits, is_read },
            None => Flags::Unknown,
        },
    }
}

/// True if a condition holds; `None`: not known.
fn holds(flags: Flags, condition: ConditionCode) -> Option<bool> {
    use ConditionCode::{a, ae, b, be, e, g, ge, l, le, ne, np, ns, p, s};
    let whole = |left: u64, right: u64, bits: u32| {
        let (low, high) = (signed(left, bits), signed(right, bits));
        Some(match condition {
            e => left == right,
            ne => left != right,
            l => low < high,
            le => low <= high,
            g => low > high,
            ge => low >= high,
            b => left < right,
            be => left <= right,
            a => left > right,
            ae => left >= right,
            s => signed(left.wrapping_sub(right), bits) < 0,
            ns => signed(left.wrapping_sub(right), bits) >= 0,
            _ => return None,
        })
    };
    match flags {
        Flags::Unknown => None,
        Flags::Whole { left, right, bits, .. } => whole(left, right, bits),
        Flags::Sum { value, bits, .. } => whole(value, 0, bits).filter(|_| matches!(condition, e | ne | s | ns)),
        Flags::Real { left, right, .. } => {
            let is_unordered = left.is_nan() || right.is_nan();
            Some(match condition {
                a => left > right,
                ae => left >= right,
                b => left < right || is_unordered,
                be => left <= right || is_unordered,
                e => left == right || is_unordered,
                ne => left != right && !is_unordered,
                p => is_unordered,
                np => !is_unordered,
                _ => return None,
            })
        }
    }
}

/// The sides of a condition of something that was read, and how they are to each other now.
fn sides(flags: Flags, condition: ConditionCode, holds: bool, compared_at: u64) -> Option<Sides> {
    let goes_on = || goes_on(if holds { condition } else { opposite(condition)? });
    let (left, right, is_whole) = match flags {
        Flags::Whole { left, right, bits, is_read: true } => {
            let side = |value: u64| match is_signed(condition) {
                true => signed(value, bits) as f64,
                false => value as f64,
            };
            (side(left), side(right), true)
        }
        Flags::Sum { value, bits, is_read: true } => (signed(value, bits) as f64, 0.0, true),
        Flags::Real { left, right, is_read: true } => (left, right, false),
        _ => return None,
    };
    Some(Sides { left, right, goes_on: goes_on()?, is_whole, compared_at })
}
