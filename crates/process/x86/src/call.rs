//! Calls that run in an island: the callee must find the original return address and come back to the original code.
//!
//! A real call first, over one byte, so that the processor's return predictor stays in step with the stack; then its
//! return address is overwritten with the original one, and a jump does the rest. No flag and no register changes.
//! Unwinders, `longjmp` and whoever removes the patch meanwhile see the program's own addresses only.
//! Next: `relocate`, which uses this.

use iced_x86::{Instruction, OpKind, Register};
use trimtab_types::ProcAddr;

/// Bytes before the jump to the callee.
pub(crate) const CALL_OVERHEAD: u64 = 21;

/// `call` over a breakpoint that nothing reaches.
const CALL_OVER_BREAKPOINT: [u8; 6] = [0xe8, 1, 0, 0, 0, 0xcc];
/// `mov dword [rsp], ...`.
const STORE_LOW: [u8; 3] = [0xc7, 0x04, 0x24];
/// `mov dword [rsp + 4], ...`.
const STORE_HIGH: [u8; 4] = [0xc7, 0x44, 0x24, 0x04];
/// The opcode of calls and jumps through an operand, told apart by the middle of the next byte.
const THROUGH_OPERAND: u8 = 0xff;
const MIDDLE: u8 = 0b0011_1000;
const MIDDLE_OF_JUMP: u8 = 0b0010_0000;
/// With it in the top, a 32-bit displacement follows.
const WIDE_DISPLACEMENT: u8 = 0b1000_0000;
const LOWEST: u8 = 0b0000_0111;
/// How far the return address moves the stack pointer.
const PUSHED: i32 = 8;

/// Puts the original return address on the stack.
pub(crate) fn push_return_address(return_address: ProcAddr, out: &mut Vec<u8>) {
    let bytes = return_address.0.to_le_bytes();
    out.extend(CALL_OVER_BREAKPOINT);
    out.extend(STORE_LOW);
    out.extend(&bytes[..4]);
    out.extend(STORE_HIGH);
    out.extend(&bytes[4..]);
}

/// The needs of an indirect call's operand when the return address is on the stack already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndirectCall {
    /// Nothing.
    Plain,
    /// Another displacement for another place.
    RipRelative,
    /// It is relative to the stack pointer, which has moved; this is the new displacement.
    OnStack(i32),
}

impl IndirectCall {
    /// None if the operand can't be kept.
    pub(crate) fn of(call: &Instruction) -> Option<IndirectCall> {
        if call.op0_kind() == OpKind::Register {
            return (call.op0_register().is_gpr64() && call.op0_register() != Register::RSP).then_some(Self::Plain);
        }
        if call.memory_size().size() != 8 || call.op0_kind() != OpKind::Memory {
            return None;
        }
        match call.memory_base() {
            Register::RIP => Some(IndirectCall::RipRelative),
            Register::RSP => {
                let displacement = call.memory_displacement64() as i64;
                let moved = i32::try_from(displacement).ok()?.checked_add(PUSHED)?;
                (displacement >= 0).then_some(IndirectCall::OnStack(moved))
            }
            Register::ESP | Register::EIP => None,
            _ => Some(IndirectCall::Plain),
        }
    }

    /// Bytes of the jump that stands for the call `bytes`.
    pub(crate) fn jump_len(self, bytes: &[u8]) -> u64 {
        match self {
            IndirectCall::OnStack(_) => opcode_at(bytes) as u64 + 3 + 4,
            _ => bytes.len() as u64,
        }
    }

    /// The jump that stands for the call `bytes`; `displacement` is used if it is relative to its place.
    pub(crate) fn put_jump(self, bytes: &[u8], displacement: [u8; 4], out: &mut Vec<u8>) {
        let opcode = opcode_at(bytes);
        let start = out.len();
        match self {
            IndirectCall::OnStack(moved) => {
                let operand = bytes[opcode + 1] & LOWEST | MIDDLE_OF_JUMP | WIDE_DISPLACEMENT;
                out.extend_from_slice(&bytes[..=opcode]);
                out.extend([operand, bytes[opcode + 2]]);
                out.extend(moved.to_le_bytes());
            }
            _ => {
                out.extend_from_slice(bytes);
                out[start + opcode + 1] = bytes[opcode + 1] & !MIDDLE | MIDDLE_OF_JUMP;
                if self == IndirectCall::RipRelative {
                    let end = out.len();
                    out[end - 4..].copy_from_slice(&displacement);
                }
            }
        }
    }
}

/// Where the opcode stands behind the prefixes, none of which has its value.
fn opcode_at(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| byte == THROUGH_OPERAND).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::relocate;
    use trimtab_types::ProcAddr;

    /// Moved from 0x1000 to 0x9000; what follows the return address.
    #[test]
    fn jumps_of_calls() {
        let rows: &[(&str, &[u8], &[u8])] = &[
            ("direct", &[0xe8, 0, 0x90, 0, 0], &[0xe9, 0xeb, 0x0f, 0, 0]),
            ("register", &[0xff, 0xd0], &[0xff, 0xe0]),
            ("extended_register", &[0x41, 0xff, 0xd4], &[0x41, 0xff, 0xe4]),
            ("memory", &[0xff, 0x50, 0x18], &[0xff, 0x60, 0x18]),
            ("rip_relative", &[0xff, 0x15, 0, 0x90, 0, 0], &[0xff, 0x25, 0xeb, 0x0f, 0, 0]),
            ("on_stack", &[0xff, 0x14, 0x24], &[0xff, 0xa4, 0x24, 8, 0, 0, 0]),
            ("on_stack_farther", &[0xff, 0x54, 0x24, 0x10], &[0xff, 0xa4, 0x24, 0x18, 0, 0, 0]),
            ("on_stack_with_index", &[0xff, 0x54, 0xc4, 0x10], &[0xff, 0xa4, 0xc4, 0x18, 0, 0, 0]),
            ("thread_local", &[0x64, 0xff, 0x14, 0x25, 0x10, 0, 0, 0], &[0x64, 0xff, 0x24, 0x25, 0x10, 0, 0, 0]),
        ];
        for (name, call, jump) in rows {
            let moved = relocate(call, ProcAddr(0x1000), ProcAddr(0x9000)).expect("calls can be moved").bytes;
            let (pushed, rest) = moved.split_at(super::CALL_OVERHEAD as usize);
            let return_address = [&pushed[9..13], &pushed[17..21]].concat();
            assert_eq!(return_address, (0x1000 + call.len() as u64).to_le_bytes(), "{name}");
            assert_eq!(rest, *jump, "{name}");
        }
    }
}
