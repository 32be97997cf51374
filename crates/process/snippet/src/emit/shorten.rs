//! The shortest form of an instruction: what the assembler writes for any number is often longer than this number needs,
//! and what a probe costs depends on how many cache lines its usual way takes.
//!
//! Next: `writer`, which asks for it where bytes are made.

use iced_x86::{Code, Instruction, MemoryOperand, OpKind, Register};

/// The same instruction in fewer bytes, if there is such a form; flags and results are the same. `is_near` says which
/// addresses can be reached from where it will lie.
pub(crate) fn shortened(instruction: &Instruction, is_near: impl Fn(u64) -> bool) -> Instruction {
    let shorter = match instruction.code() {
        Code::Mov_RAX_moffs64 => short_address(instruction),
        Code::Mov_r64_imm64 => short_constant(instruction, is_near),
        code => short_form(code).and_then(|short| short_operand(instruction, short)),
    };
    let Some(mut shorter) = shorter else { return *instruction };
    // Labels go by this.
    shorter.set_ip(instruction.ip());
    shorter
}

/// A load from an address below 2 GiB: four bytes say it.
fn short_address(instruction: &Instruction) -> Option<Instruction> {
    let address = i32::try_from(instruction.memory_displacement64() as i64).ok()?;
    let segment = instruction.segment_prefix();
    let memory = MemoryOperand::new(Register::None, Register::None, 1, i64::from(address), 8, false, segment);
    Instruction::with2(Code::Mov_r64_rm64, Register::RAX, memory).ok()
}

/// A constant below 4 GiB, for which the upper half of the register becomes zero by itself, or an address nearby.
fn short_constant(instruction: &Instruction, is_near: impl Fn(u64) -> bool) -> Option<Instruction> {
    let (register, constant) = (instruction.op0_register(), instruction.immediate64());
    if let Ok(value) = u32::try_from(constant) {
        return Instruction::with2(Code::Mov_r32_imm32, half_of(register)?, value).ok();
    }
    let place = MemoryOperand::with_base_displ(Register::RIP, constant as i64);
    if is_near(constant) { Instruction::with2(Code::Lea_r64_m, register, place).ok() } else { None }
}

/// The lower half of a 64-bit register.
fn half_of(register: Register) -> Option<Register> {
    let number = (register as u32).checked_sub(Register::RAX as u32).filter(|number| *number < 16)?;
    Register::values().find(|half| *half as u32 == Register::EAX as u32 + number)
}

/// The form with a number of one byte, of one on `rax` with a number of four.
fn short_form(code: Code) -> Option<Code> {
    Some(match code {
        Code::Add_RAX_imm32 => Code::Add_rm64_imm8,
        Code::Or_RAX_imm32 => Code::Or_rm64_imm8,
        Code::And_RAX_imm32 => Code::And_rm64_imm8,
        Code::Sub_RAX_imm32 => Code::Sub_rm64_imm8,
        Code::Xor_RAX_imm32 => Code::Xor_rm64_imm8,
        Code::Cmp_RAX_imm32 => Code::Cmp_rm64_imm8,
        _ => return None,
    })
}

fn short_operand(instruction: &Instruction, short: Code) -> Option<Instruction> {
    if instruction.op1_kind() != OpKind::Immediate32to64 {
        return None;
    }
    let value = i8::try_from(instruction.immediate32to64()).ok()?;
    Instruction::with2(short, Register::RAX, i32::from(value)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::code_asm::*;
    use iced_x86::{BlockEncoder, BlockEncoderOptions, Formatter, InstructionBlock, IntelFormatter};

    /// An instruction as the assembler writes it, and its bytes afterwards; the text stays the same.
    fn bytes_of(write: impl FnOnce(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>) -> usize {
        let mut assembler = CodeAssembler::new(64).expect("64 bits");
        write(&mut assembler).expect("an instruction");
        let long = assembler.instructions()[0];
        let short = shortened(&long, |address| address >> 32 == 0x55);
        assert_eq!(short.ip(), long.ip());
        let text = |instruction: &Instruction| {
            let mut text = String::new();
            IntelFormatter::new().format(instruction, &mut text);
            text.replace("eax", "rax").replace("r11d", "r11").replace("lea r11,[5500002000h]", "mov r11,5500002000h")
        };
        assert_eq!(text(&short), text(&long));
        let block = InstructionBlock::new(std::slice::from_ref(&short), 0x55_0000_1000);
        BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).expect("encodes").code_buffer.len()
    }

    #[test]
    fn small_numbers_take_few_bytes() {
        assert_eq!(bytes_of(|a| a.mov(rax, qword_ptr(0).fs())), 9);
        assert_eq!(bytes_of(|a| a.mov(r11, 5_u64)), 6);
        assert_eq!(bytes_of(|a| a.mov(rax, u64::from(u32::MAX))), 5);
        assert_eq!(bytes_of(|a| a.mov(r11, 1_u64 << 32)), 10);
        assert_eq!(bytes_of(|a| a.mov(r11, 0x55_0000_2000_u64)), 7, "nearby");
        assert_eq!(bytes_of(|a| a.cmp(rax, 127)), 4);
        assert_eq!(bytes_of(|a| a.sub(rax, -128)), 4);
        assert_eq!(bytes_of(|a| a.add(rax, 128)), 6);
        assert_eq!(bytes_of(|a| a.and(rax, -129)), 6);
        assert_eq!(bytes_of(|a| a.cmp(r11, 8)), 4);
    }
}
