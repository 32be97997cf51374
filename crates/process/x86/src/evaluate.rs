//! The answer of a small function, without running it: its instructions are interpreted over bytes that are only read.
//!
//! A library's own word for its state (`MPI_Initialized`) is a function in every version of it, while the variables behind it
//! have other names and places in each. Such a function loads, compares and stores; nothing else is understood here. It gets
//! a stack and one cell of its own for its answer. It writes to nothing else, or it is given up, and so is one that asks the
//! kernel, uses vector registers or takes too long.
//!
//! Next: `trimtab-track`, which asks libraries so how far a process is.

use iced_x86::{Code, ConditionCode, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use trimtab_types::ProcAddr;

/// Instructions that are followed at most.
const STEPS_MAX: usize = 4096;
/// Its own memory lies where no process has any.
const OWN_START: u64 = 0xf000_0000_0000_0000;
const OWN_BYTES: usize = 8192;
/// The cell for the answer, above the stack.
const CELL: u64 = OWN_START + OWN_BYTES as u64 - 64;
/// The cell's content before.
const NO_ANSWER: u32 = u32::MAX;
const STACK_TOP: u64 = CELL - 64;
/// Where it returns to in the end.
const CALLER: u64 = 0xf100_0000_0000_0000;
/// The word that the compiler's stack guard compares with, relative to `fs`.
const STACK_GUARD: u64 = 0x28;
/// The longest instruction.
const INSTRUCTION_BYTES_MAX: usize = 15;
const PAGE_BYTES: u64 = crate::PAGE_BYTES;

/// Reads so many bytes of the process at an address, all of them or nothing.
pub type ReadBytes<'a> = &'a dyn Fn(ProcAddr, usize) -> Option<Vec<u8>>;

/// The value that `int f(int *cell)` at `entry` puts into its cell if it is called now, provided that it then returns 0; `None` if
/// that can't be told.
pub fn evaluate_cell(read: ReadBytes, entry: ProcAddr) -> Option<u32> {
    let mut machine = Machine::new(read, entry.0);
    for _ in 0..STEPS_MAX {
        if machine.at == CALLER {
            return machine.answer();
        }
        machine.step()?;
    }
    None
}

struct Machine<'a> {
    read: ReadBytes<'a>,
    at: u64,
    registers: [u64; 16],
    flags: Flags,
    own: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Flags {
    carry: bool,
    parity: bool,
    zero: bool,
    sign: bool,
    overflow: bool,
}

impl<'a> Machine<'a> {
    fn new(read: ReadBytes<'a>, entry: u64) -> Self {
        let mut machine =
            Machine { read, at: entry, registers: [0; 16], flags: Flags::default(), own: vec![0; OWN_BYTES] };
        machine.registers[Register::RDI.number()] = CELL;
        machine.registers[Register::RSP.number()] = STACK_TOP - 8;
        machine.store(STACK_TOP - 8, 8, CALLER);
        // A cell that is left as it was holds no answer.
        machine.store(CELL, 4, u64::from(NO_ANSWER));
        machine
    }

    /// The value that it has put into its cell, if it has and returns 0.
    fn answer(&self) -> Option<u32> {
        let answer = self.load(CELL, 4)? as u32;
        (self.registers[0] as u32 == 0 && answer != NO_ANSWER).then_some(answer)
    }

    fn step(&mut self) -> Option<()> {
        let instruction = self.fetch()?;
        self.at = instruction.next_ip();
        match instruction.mnemonic() {
            Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Mfence | Mnemonic::Lfence | Mnemonic::Pause => Some(()),
            Mnemonic::Mov | Mnemonic::Movzx => self.copy(&instruction),
            Mnemonic::Movsx | Mnemonic::Movsxd => self.copy_signed(&instruction),
            Mnemonic::Lea => {
                let address = self.address(&instruction, 1)?;
                self.write(&instruction, 0, address)
            }
            Mnemonic::Test | Mnemonic::And | Mnemonic::Or | Mnemonic::Xor => self.combine(&instruction),
            Mnemonic::Cmp | Mnemonic::Sub | Mnemonic::Add => self.count(&instruction),
            Mnemonic::Push | Mnemonic::Pop | Mnemonic::Leave => self.stack(&instruction),
            Mnemonic::Call | Mnemonic::Jmp | Mnemonic::Ret => self.go(&instruction),
            _ => self.conditional(&instruction),
        }
    }

    fn fetch(&self) -> Option<Instruction> {
        let to_page_end = (PAGE_BYTES - self.at % PAGE_BYTES) as usize;
        let bytes = (self.read)(ProcAddr(self.at), INSTRUCTION_BYTES_MAX)
            .or_else(|| (self.read)(ProcAddr(self.at), to_page_end.min(INSTRUCTION_BYTES_MAX)))?;
        let instruction = Decoder::with_ip(64, &bytes, self.at, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    fn copy(&mut self, instruction: &Instruction) -> Option<()> {
        let value = self.value(instruction, 1)?;
        self.write(instruction, 0, value)
    }

    fn copy_signed(&mut self, instruction: &Instruction) -> Option<()> {
        let unused_bits = 64 - 8 * size_of_operand(instruction, 1)? as u32;
        let value = (self.value(instruction, 1)? << unused_bits) as i64 >> unused_bits;
        self.write(instruction, 0, value as u64)
    }

    fn combine(&mut self, instruction: &Instruction) -> Option<()> {
        let (left, right) = (self.value(instruction, 0)?, self.value(instruction, 1)?);
        let result = match instruction.mnemonic() {
            Mnemonic::Or => left | right,
            Mnemonic::Xor => left ^ right,
            _ => left & right,
        };
        self.flags = Flags::of(result, size_of_operand(instruction, 0)?);
        if instruction.mnemonic() == Mnemonic::Test { Some(()) } else { self.write(instruction, 0, result) }
    }

    fn count(&mut self, instruction: &Instruction) -> Option<()> {
        let size = size_of_operand(instruction, 0)?;
        let (left, right) = (self.value(instruction, 0)?, self.value(instruction, 1)? & mask(size));
        let is_sum = instruction.mnemonic() == Mnemonic::Add;
        let result = if is_sum { left.wrapping_add(right) } else { left.wrapping_sub(right) } & mask(size);
        let sign = |value: u64| value >> (8 * size - 1) & 1 != 0;
        let signs_agree = sign(left) == sign(right);
        self.flags = Flags {
            carry: if is_sum { result < left } else { left < right },
            overflow: signs_agree == is_sum && sign(result) != sign(left),
            ..Flags::of(result, size)
        };
        if instruction.mnemonic() == Mnemonic::Cmp { Some(()) } else { self.write(instruction, 0, result) }
    }

    fn stack(&mut self, instruction: &Instruction) -> Option<()> {
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let value = self.value(instruction, 0)?;
                (instruction.stack_pointer_increment() == -8).then_some(())?;
                self.push(value)
            }
            Mnemonic::Leave => {
                self.registers[Register::RSP.number()] = self.registers[Register::RBP.number()];
                self.registers[Register::RBP.number()] = self.pop()?;
                Some(())
            }
            _ => {
                (instruction.stack_pointer_increment() == 8).then_some(())?;
                let value = self.pop()?;
                self.write(instruction, 0, value)
            }
        }
    }

    fn go(&mut self, instruction: &Instruction) -> Option<()> {
        if instruction.mnemonic() == Mnemonic::Ret {
            (instruction.code() == Code::Retnq).then_some(())?;
            self.at = self.pop()?;
            return Some(());
        }
        let target = match instruction.op0_kind() {
            OpKind::NearBranch64 => instruction.near_branch64(),
            _ => self.value(instruction, 0)?,
        };
        if instruction.mnemonic() == Mnemonic::Call {
            self.push(self.at)?;
        }
        self.at = target;
        Some(())
    }

    /// `j..`, `set..` and `cmov..`; anything else is not understood.
    fn conditional(&mut self, instruction: &Instruction) -> Option<()> {
        let holds = self.flags.hold(instruction.condition_code())?;
        match instruction.op0_kind() {
            OpKind::NearBranch64 if holds => self.at = instruction.near_branch64(),
            OpKind::NearBranch64 => {}
            _ if instruction.op_count() == 1 => self.write(instruction, 0, u64::from(holds))?,
            _ => {
                let value = self.value(instruction, if holds { 1 } else { 0 })?;
                self.write(instruction, 0, value)?;
            }
        }
        Some(())
    }

    fn push(&mut self, value: u64) -> Option<()> {
        let top = &mut self.registers[Register::RSP.number()];
        *top = top.wrapping_sub(8);
        let top = *top;
        self.store(top, 8, value)
    }

    fn pop(&mut self) -> Option<u64> {
        let top = self.registers[Register::RSP.number()];
        self.registers[Register::RSP.number()] = top.wrapping_add(8);
        self.load(top, 8)
    }

    /// The address that a memory operand names.
    fn address(&self, instruction: &Instruction, operand: u32) -> Option<u64> {
        instruction.virtual_address(operand, 0, |register, _, _| match register {
            // Without a segment, or with one that begins at 0.
            Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
            register if register.is_gpr64() => Some(self.registers[register.number()]),
            register if register.is_gpr32() => Some(self.registers[register.number()] & 0xffff_ffff),
            _ => None,
        })
    }

    fn value(&self, instruction: &Instruction, operand: u32) -> Option<u64> {
        let size = size_of_operand(instruction, operand)?;
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let (index, shift) = place(instruction.op_register(operand))?;
                Some(self.registers[index] >> shift & mask(size))
            }
            OpKind::Memory if instruction.segment_prefix() == Register::FS => {
                let is_plain =
                    instruction.memory_base() == Register::None && instruction.memory_index() == Register::None;
                (is_plain && instruction.memory_displacement64() == STACK_GUARD).then_some(0)
            }
            OpKind::Memory => self.load(self.address(instruction, operand)?, size),
            _ => instruction.try_immediate(operand).ok().map(|value| value & mask(size)),
        }
    }

    fn write(&mut self, instruction: &Instruction, operand: u32, value: u64) -> Option<()> {
        let size = size_of_operand(instruction, operand)?;
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let (index, shift) = place(instruction.op_register(operand))?;
                // The upper half is cleared with the lower one, smaller parts leave the rest alone.
                let kept = if size >= 4 { 0 } else { self.registers[index] & !(mask(size) << shift) };
                self.registers[index] = kept | (value & mask(size)) << shift;
                Some(())
            }
            OpKind::Memory => {
                let address = self.address(instruction, operand)?;
                self.store(address, size, value)
            }
            _ => None,
        }
    }

    fn load(&self, address: u64, size: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        let part = bytes.get_mut(..size)?;
        match own_range(address, size) {
            Some(range) => part.copy_from_slice(self.own.get(range)?),
            None => part.copy_from_slice((self.read)(ProcAddr(address), size)?.get(..size)?),
        }
        Some(u64::from_le_bytes(bytes))
    }

    /// Only its own memory is written to.
    fn store(&mut self, address: u64, size: usize, value: u64) -> Option<()> {
        let part = self.own.get_mut(own_range(address, size)?)?;
        part.copy_from_slice(value.to_le_bytes().get(..size)?);
        Some(())
    }
}

impl Flags {
    fn of(result: u64, size: usize) -> Flags {
        Flags {
            zero: result & mask(size) == 0,
            sign: result >> (8 * size - 1) & 1 != 0,
            parity: (result as u8).count_ones().is_multiple_of(2),
            ..Flags::default()
        }
    }

    fn hold(self, condition: ConditionCode) -> Option<bool> {
        let less = self.sign != self.overflow;
        Some(match condition {
            ConditionCode::None => return None,
            ConditionCode::o => self.overflow,
            ConditionCode::no => !self.overflow,
            ConditionCode::b => self.carry,
            ConditionCode::ae => !self.carry,
            ConditionCode::e => self.zero,
            ConditionCode::ne => !self.zero,
            ConditionCode::be => self.carry || self.zero,
            ConditionCode::a => !self.carry && !self.zero,
            ConditionCode::s => self.sign,
            ConditionCode::ns => !self.sign,
            ConditionCode::p => self.parity,
            ConditionCode::np => !self.parity,
            ConditionCode::l => less,
            ConditionCode::ge => !less,
            ConditionCode::le => less || self.zero,
            ConditionCode::g => !less && !self.zero,
        })
    }
}

/// Which register's bits a name means, and from which bit on; `None` for vector registers and the like.
fn place(register: Register) -> Option<(usize, u32)> {
    let is_high = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
    let full = register.full_register();
    full.is_gpr64().then(|| (full.number(), if is_high { 8 } else { 0 }))
}

fn own_range(address: u64, size: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(address.checked_sub(OWN_START)?).ok()?;
    (start < OWN_BYTES).then(|| start..start + size)
}

fn mask(size: usize) -> u64 {
    if size >= 8 { u64::MAX } else { (1 << (8 * size)) - 1 }
}

/// Bytes of an operand; `None` for none and for what is larger than a register.
fn size_of_operand(instruction: &Instruction, operand: u32) -> Option<usize> {
    let size = match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand).size(),
        OpKind::Memory => instruction.memory_size().size(),
        // An immediate is as wide as what it goes with.
        _ if operand > 0 => return size_of_operand(instruction, 0),
        _ => 8,
    };
    (1..=8).contains(&size).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::code_asm::*;

    const CODE: u64 = 0x40_0000;
    const STATE: u64 = 0x60_0000;

    /// The value that the code puts into its cell where this is the word at `STATE`.
    fn answer(state: u32, write: impl Fn(&mut CodeAssembler)) -> Option<u32> {
        let mut code = CodeAssembler::new(64).expect("64 bits");
        write(&mut code);
        let code = code.assemble(CODE).expect("code");
        let memory = move |address: ProcAddr, length: usize| {
            let part = |start: u64, bytes: &[u8]| {
                let from = usize::try_from(address.0.checked_sub(start)?).ok()?;
                bytes.get(from..from.checked_add(length)?).map(<[u8]>::to_vec)
            };
            let mut padded = code.clone();
            padded.resize(PAGE_BYTES as usize, 0xcc);
            part(CODE, &padded).or_else(|| part(STATE, &state.to_le_bytes()))
        };
        evaluate_cell(&memory, ProcAddr(CODE))
    }

    fn mpich(code: &mut CodeAssembler) {
        let mut refused = code.create_label();
        code.push(rbp).unwrap();
        code.sub(rsp, 8).unwrap();
        code.test(rdi, rdi).unwrap();
        code.je(refused).unwrap();
        code.lea(rax, dword_ptr(STATE)).unwrap();
        code.mov(eax, dword_ptr(rax)).unwrap();
        code.test(eax, eax).unwrap();
        code.setne(al).unwrap();
        code.xor(ebx, ebx).unwrap();
        code.movzx(eax, al).unwrap();
        code.mov(dword_ptr(rdi), eax).unwrap();
        code.add(rsp, 8).unwrap();
        code.mov(eax, ebx).unwrap();
        code.pop(rbp).unwrap();
        code.ret().unwrap();
        code.set_label(&mut refused).unwrap();
        code.syscall().unwrap();
    }

    #[test]
    fn answers_are_those_of_the_code() {
        assert_eq!([0, 1, 7].map(|state| answer(state, mpich)), [Some(0), Some(1), Some(1)]);
        let at_least_two = |code: &mut CodeAssembler| {
            let mut inner = code.create_label();
            code.call(inner).unwrap();
            code.mov(dword_ptr(rdi), ecx).unwrap();
            code.mov(eax, 0).unwrap();
            code.ret().unwrap();
            code.set_label(&mut inner).unwrap();
            code.mov(rdx, qword_ptr(STACK_GUARD).fs()).unwrap();
            code.lock().or(dword_ptr(rsp), 0).unwrap();
            code.xor(ecx, ecx).unwrap();
            code.cmp(dword_ptr(STATE), 1).unwrap();
            code.setg(cl).unwrap();
            code.ret().unwrap();
        };
        let signed = [0, 1, 2, 5, u32::MAX].map(|state| answer(state, at_least_two));
        assert_eq!(signed, [Some(0), Some(0), Some(1), Some(1), Some(0)]);
    }

    #[test]
    fn what_is_not_understood_has_no_answer() {
        type Write = fn(&mut CodeAssembler);
        let code: [(&str, Write); 6] = [
            ("a system call", |code| code.syscall().unwrap()),
            ("a loop without end", |code| {
                let mut again = code.create_label();
                code.set_label(&mut again).unwrap();
                code.jmp(again).unwrap();
            }),
            ("it writes to the process", |code| code.mov(dword_ptr(STATE), 1).unwrap()),
            ("an error is returned", |code| {
                code.mov(dword_ptr(rdi), 1).unwrap();
                code.mov(eax, 1).unwrap();
                code.ret().unwrap();
            }),
            ("vector registers", |code| code.movups(xmm0, xmmword_ptr(rdi)).unwrap()),
            ("unmapped memory", |code| code.mov(eax, dword_ptr(0x10)).unwrap()),
        ];
        for (case, write) in code {
            assert_eq!(answer(1, write), None, "{case}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_code_is_survived(code in proptest::collection::vec(proptest::num::u8::ANY, 1..200)) {
            let read = |address: ProcAddr, length: usize| {
                let from = usize::try_from(address.0.checked_sub(CODE)?).ok()?;
                code.get(from..from.checked_add(length)?).map(<[u8]>::to_vec)
            };
            let _ = evaluate_cell(&read, ProcAddr(CODE));
        }
    }
}
