//! Machine code as text, for people who want to see what will run: one line per instruction, in Intel's notation.
//!
//! Next: `trimtab explain`, which prints it.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, Instruction, IntelFormatter, OpKind};
use trimtab_types::ProcAddr;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeLine {
    /// Where it stands.
    pub address: ProcAddr,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The instruction in words; `(bad)` for bytes that are no instruction.
    pub text: String,
    /// The address that it jumps to, calls or addresses relative to itself.
    pub target: Option<ProcAddr>,
}

/// The instructions of `bytes` at `address`, one behind the other. Bytes that are no instruction are a line each.
pub fn disassemble(bytes: &[u8], address: ProcAddr) -> Vec<CodeLine> {
    let mut decoder = Decoder::with_ip(64, bytes, address.0, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(true);
    options.set_space_after_operand_separator(true);
    options.set_show_branch_size(false);
    options.set_rip_relative_addresses(false);
    options.set_branch_leading_zeros(false);
    let mut lines = Vec::new();
    while decoder.can_decode() {
        let at = decoder.position();
        let instruction = decoder.decode();
        let mut end = decoder.position();
        let mut text = String::new();
        let mut target = None;
        if instruction.is_invalid() {
            end = at + 1;
            text.push_str("(bad)");
            // The rest may be instructions again.
            let Ok(()) = decoder.set_position(end) else { break };
            decoder.set_ip(address.0.wrapping_add(end as u64));
        } else {
            formatter.format(&instruction, &mut text);
            target = target_of(&instruction);
        }
        let address = ProcAddr(address.0.wrapping_add(at as u64));
        lines.push(CodeLine { address, bytes: bytes[at..end].to_vec(), text, target });
    }
    lines
}

fn target_of(instruction: &Instruction) -> Option<ProcAddr> {
    let is_branch = !matches!(instruction.flow_control(), FlowControl::Next | FlowControl::Interrupt);
    if is_branch && instruction.op0_kind() == OpKind::NearBranch64 {
        return Some(ProcAddr(instruction.near_branch64()));
    }
    instruction.is_ip_rel_memory_operand().then(|| ProcAddr(instruction.ip_rel_memory_address()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_in_one_line() {
        // lea rax, [rdi+1]; call +0x10; inc qword ptr [rip+0x20]; no instruction; ret
        let bytes = [0x48, 0x8d, 0x47, 0x01, 0xe8, 0x10, 0, 0, 0, 0x48, 0xff, 0x05, 0x20, 0, 0, 0, 0x06, 0xc3];
        let lines = disassemble(&bytes, ProcAddr(0x1000));
        let shown: Vec<(u64, &str, Option<u64>)> =
            lines.iter().map(|line| (line.address.0, line.text.as_str(), line.target.map(|target| target.0))).collect();
        let expected = [
            (0x1000, "lea rax, [rdi+1]", None),
            (0x1004, "call 0x1019", Some(0x1019)),
            (0x1009, "inc qword ptr [0x1030]", Some(0x1030)),
            (0x1010, "(bad)", None),
            (0x1011, "ret", None),
        ];
        assert_eq!(shown, expected);
        assert_eq!(lines.iter().flat_map(|line| line.bytes.clone()).collect::<Vec<u8>>(), bytes);
    }

    #[test]
    fn any_bytes_have_a_listing() {
        let mut state = 1_u64;
        for length in 0..200 {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            let lines = disassemble(&bytes, ProcAddr(u64::MAX - 50));
            assert_eq!(lines.iter().flat_map(|line| line.bytes.clone()).collect::<Vec<u8>>(), bytes);
        }
    }
}
