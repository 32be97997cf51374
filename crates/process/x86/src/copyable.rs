//! Can a piece of code run wherever its bytes are copied to? The compiler's code of the in-target routines must. An option
//! of the compiler's, for whole-program optimisation, coverage or profiles, can add a call or a counter that lies elsewhere,
//! and a target that gets such code crashes.
//!
//! Next: `trimtab-session`, which asks before it copies any.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use std::ops::Range;

/// Where the code is looked at; any place far from 0 will do.
const BASE: u64 = 1 << 40;

/// Why code can't be copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (byte {offset}: {code:?})")]
pub struct NotCopyable {
    what: &'static str,
    offset: u64,
    code: Code,
}

/// Checks that `code` does the same wherever it is copied, and leaves vector and floating-point registers alone. It may
/// call through registers and memory.
///
/// # Errors
/// The first instruction that does not allow it.
pub fn check_copyable(code: &[u8]) -> Result<(), NotCopyable> {
    let inside = BASE..BASE + code.len() as u64;
    for instruction in Decoder::with_ip(64, code, BASE, DecoderOptions::NONE) {
        if let Some(what) = fault(&instruction, &inside) {
            return Err(NotCopyable { what, offset: instruction.ip() - BASE, code: instruction.code() });
        }
    }
    Ok(())
}

fn fault(instruction: &Instruction, inside: &Range<u64>) -> Option<&'static str> {
    if instruction.is_invalid() {
        return Some("there is something that is no instruction");
    }
    let is_branch = instruction.op0_kind() == OpKind::NearBranch64;
    if is_branch && !inside.contains(&instruction.near_branch64()) {
        return Some("it leads to code elsewhere");
    }
    if instruction.flow_control() == FlowControl::IndirectBranch {
        return Some("it jumps by a table");
    }
    if instruction.is_ip_rel_memory_operand() && !inside.contains(&instruction.ip_rel_memory_address()) {
        return Some("it addresses memory beside it");
    }
    let operands = 0..instruction.op_count();
    let mut registers = operands.filter(|operand| instruction.op_kind(*operand) == OpKind::Register);
    let is_kept = |register: Register| register.is_gpr() || register.is_segment_register();
    let strange = registers.any(|operand| !is_kept(instruction.op_register(operand)));
    strange.then_some("it uses registers that are not saved")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of code, and what keeps it from being copied.
    #[test]
    fn what_leads_elsewhere_is_told() {
        for (name, code, expected) in [
            ("return", &[0xc3][..], None),
            ("a jump inside", &[0xeb, 0x00, 0xc3], None),
            ("a call through memory of its own", &[0xff, 0x15, 0xfa, 0xff, 0xff, 0xff], None),
            ("a call through a register", &[0xff, 0xd0, 0x0f, 0x05], None),
            ("a word of its own", &[0x48, 0x8b, 0x05, 0x00, 0x00, 0x00, 0x00, 0xc3], None),
            ("a segment's word", &[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0], None),
            ("a call elsewhere", &[0xe8, 0x00, 0x10, 0x00, 0x00], Some("code elsewhere")),
            ("a jump behind the end", &[0xeb, 0x00], Some("code elsewhere")),
            ("a condition elsewhere", &[0x90, 0x74, 0xf0], Some("code elsewhere")),
            ("a counter", &[0x48, 0xff, 0x05, 0x00, 0x10, 0x00, 0x00], Some("memory beside it")),
            ("a table", &[0xff, 0xe0], Some("by a table")),
            ("a vector register", &[0x0f, 0x57, 0xc0], Some("not saved")),
            ("half an instruction", &[0xc3, 0xe8], Some("no instruction")),
        ] {
            let found = check_copyable(code).map_err(|error| error.to_string());
            match expected {
                None => assert_eq!(found, Ok(()), "{name}"),
                Some(what) => assert!(found.as_ref().is_err_and(|said| said.contains(what)), "{name}: {found:?}"),
            }
        }
    }
}
