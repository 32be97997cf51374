//! What compiling gives: bytes for one address, and how they read to a person.
//!
//! Next: `super::compile`.

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

/// One body's code, for the address it was compiled for.
///
/// It is entered at [`Code::entry`] with the registers and the stack the program has at the point, and goes on behind its
/// last byte with every register, flag and stack word as they were: there the caller puts what the program would
/// have run. What lies before the entry is constants and unusual cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Offset of the first instruction.
    pub entry: usize,
    /// The address they are for.
    pub at: u64,
    /// Instructions that one run executes at most, shared routines included (called functions are not).
    pub instructions_max: u64,
    /// Bytes of the program's stack that one run uses, without called functions: below the stack pointer, the 128 bytes
    /// the program may use there included.
    pub stack_bytes: u32,
    pub(crate) constant_bytes: usize,
}

impl Code {
    /// The address where the program enters.
    pub fn entry_address(&self) -> u64 {
        self.at + self.entry as u64
    }

    /// Disassembly, one instruction per line: address, bytes, text. Constants are shown as bytes.
    pub fn listing(&self) -> String {
        let (constants, code) = self.bytes.split_at(self.constant_bytes);
        let mut lines = String::new();
        for (number, bytes) in constants.chunks(8).enumerate() {
            let text = format!("db {}", bytes.escape_ascii());
            push_line(&mut lines, self.at + 8 * number as u64, bytes, &text);
        }
        let start = self.at + self.constant_bytes as u64;
        let mut formatter = IntelFormatter::new();
        let options = formatter.options_mut();
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_space_after_operand_separator(true);
        options.set_uppercase_hex(false);
        for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE).iter() {
            if instruction.ip() == self.entry_address() {
                lines.push_str("entry:\n");
            }
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            let offset = (instruction.ip() - start) as usize;
            push_line(&mut lines, instruction.ip(), &code[offset..offset + instruction.len()], &text);
        }
        lines
    }
}

fn push_line(lines: &mut String, address: u64, bytes: &[u8], text: &str) {
    use std::fmt::Write;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // Writing to a string can't fail.
    let _ = writeln!(lines, "{address:#014x}  {hex:<22}  {text}");
}
