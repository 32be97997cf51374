//! Code as text, for messages of tests that fail.
//!
//! Next: `trimtab_x86::disassemble`, which tells what each instruction does.

use std::fmt::Write;
use trimtab_snippet::emit::Code;
use trimtab_x86::disassemble;

/// One instruction per line: address, bytes, text. Constants are shown as bytes.
pub fn shown(code: &Code) -> String {
    let (constants, rest) = code.bytes.split_at(code.constant_bytes);
    let mut lines = String::new();
    for (number, bytes) in constants.chunks(8).enumerate() {
        push_line(&mut lines, code.at.0 + 8 * number as u64, bytes, &format!("db {}", bytes.escape_ascii()));
    }
    for line in disassemble(rest, code.at + code.constant_bytes as u64) {
        if line.address == code.entry_address() {
            lines.push_str("entry:\n");
        }
        push_line(&mut lines, line.address.0, &line.bytes, &line.text);
    }
    lines
}

fn push_line(lines: &mut String, address: u64, bytes: &[u8], text: &str) {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // Writing to a string can't fail.
    let _ = writeln!(lines, "{address:#014x}  {hex:<22}  {text}");
}
