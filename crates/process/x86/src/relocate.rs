//! Instructions moved to another address, meaning the same there.
//!
//! Bytes are copied as they are, so that no encoding is ever reinterpreted; only what depends on the address
//! changes: 32-bit displacements of rip-relative operands, and near branches, which all get their long form.
//! `loop` and `jrcxz` have none and become a short hop over a jump. A branch to one of the moved instructions goes
//! to the moved one. A call leaves its original return address, so the callee comes back to the original code.
//! Next: `site` for what is to be moved, `call` for calls.

use crate::call::{CALL_OVERHEAD, IndirectCall, push_return_address};
use crate::instruction::near_target;
use crate::jump::displacement32;
use crate::{NEAR_JUMP_LEN, Refusal};
use iced_x86::{ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use trimtab_types::ProcAddr;

/// Instructions at their new place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relocated {
    /// The new bytes.
    pub bytes: Vec<u8>,
    /// Old and new address of each instruction, in order: where a thread that stands at the old one may go on.
    pub offsets: Vec<(ProcAddr, ProcAddr)>,
}

/// Moves the whole instructions `bytes` from address `from` to address `to`.
///
/// # Errors
/// [`Refusal::Unmovable`] for instructions that must stay in place, [`Refusal::Undecodable`] for bytes that are no whole instruction, [`Refusal::OutOfReach`] if `to` is too far from
/// what they refer to.
pub fn relocate(bytes: &[u8], from: ProcAddr, to: ProcAddr) -> Result<Relocated, Refusal> {
    let pieces = split(bytes, from)?;
    let mut offsets = Vec::with_capacity(pieces.len());
    let mut new_address = to;
    for piece in &pieces {
        offsets.push((ProcAddr(piece.instruction.ip()), new_address));
        new_address = ProcAddr(new_address.0.wrapping_add(piece.new_len()));
    }
    let mut moved = Relocated { bytes: Vec::with_capacity(bytes.len() * 2), offsets };
    for (index, piece) in pieces.iter().enumerate() {
        let at = moved.offsets[index].1;
        piece.emit(at, &moved.offsets, &mut moved.bytes)?;
    }
    Ok(moved)
}

/// One instruction and its original bytes.
struct Piece<'a> {
    instruction: Instruction,
    bytes: &'a [u8],
    constants: ConstantOffsets,
    form: Form,
}

/// How an instruction depends on its address.
#[derive(Clone, Copy)]
enum Form {
    Verbatim,
    RipRelative,
    /// `jmp`.
    Jump(ProcAddr),
    /// `jcc`, with its condition code.
    Conditional(u8, ProcAddr),
    /// `loop`, `loope`, `loopne`, `jrcxz`, `jecxz`.
    Counted(ProcAddr),
    /// `call`.
    Call(ProcAddr),
    /// `call` through a register or memory.
    IndirectCall(IndirectCall),
}

/// Bytes of `jcc rel32`.
const LONG_CONDITIONAL_LEN: u64 = 6;
/// A counted branch over a short jump, and that short jump over a near jump.
const COUNTED_HOPS: [u8; 3] = [0x02, 0xeb, 0x05];

impl Piece<'_> {
    fn new_len(&self) -> u64 {
        match self.form {
            Form::Verbatim | Form::RipRelative => self.bytes.len() as u64,
            Form::Jump(_) => NEAR_JUMP_LEN,
            Form::Conditional(..) => LONG_CONDITIONAL_LEN,
            Form::Counted(_) => self.bytes.len() as u64 - 1 + COUNTED_HOPS.len() as u64 + NEAR_JUMP_LEN,
            Form::Call(_) => CALL_OVERHEAD + NEAR_JUMP_LEN,
            Form::IndirectCall(call) => CALL_OVERHEAD + call.jump_len(self.bytes),
        }
    }

    fn emit(&self, at: ProcAddr, offsets: &[(ProcAddr, ProcAddr)], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let next = at.0.wrapping_add(self.new_len());
        let reach = |target: ProcAddr| {
            displacement32(next, target).map(i32::to_le_bytes).ok_or(Refusal::OutOfReach { from: at, target })
        };
        match self.form {
            Form::Call(target) => {
                push_return_address(ProcAddr(self.instruction.next_ip()), out);
                out.push(0xe9);
                out.extend(reach(target)?);
            }
            Form::IndirectCall(call) => {
                push_return_address(ProcAddr(self.instruction.next_ip()), out);
                let displacement = match call {
                    IndirectCall::RipRelative => reach(ProcAddr(self.instruction.ip_rel_memory_address()))?,
                    _ => [0; 4],
                };
                call.put_jump(self.bytes, displacement, out);
            }
            Form::Verbatim => out.extend_from_slice(self.bytes),
            Form::RipRelative => {
                let displacement = reach(ProcAddr(self.instruction.ip_rel_memory_address()))?;
                let start = out.len() + self.constants.displacement_offset();
                out.extend_from_slice(self.bytes);
                out[start..start + displacement.len()].copy_from_slice(&displacement);
            }
            Form::Jump(target) => {
                out.push(0xe9);
                out.extend(reach(moved_target(target, offsets))?);
            }
            Form::Conditional(condition, target) => {
                out.extend([0x0f, 0x80 | condition]);
                out.extend(reach(moved_target(target, offsets))?);
            }
            Form::Counted(target) => {
                out.extend_from_slice(&self.bytes[..self.bytes.len() - 1]);
                out.extend(COUNTED_HOPS);
                out.push(0xe9);
                out.extend(reach(moved_target(target, offsets))?);
            }
        }
        Ok(())
    }
}

/// Where a branch to `target` goes after the move.
fn moved_target(target: ProcAddr, offsets: &[(ProcAddr, ProcAddr)]) -> ProcAddr {
    offsets.iter().find(|(old, _)| *old == target).map_or(target, |(_, new)| *new)
}

fn split(bytes: &[u8], from: ProcAddr) -> Result<Vec<Piece<'_>>, Refusal> {
    let mut decoder = Decoder::with_ip(64, bytes, from.0, DecoderOptions::NONE);
    let mut pieces = Vec::new();
    while decoder.can_decode() {
        let start = decoder.position();
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(Refusal::Undecodable { at: ProcAddr(instruction.ip()) });
        }
        let constants = decoder.get_constant_offsets(&instruction);
        let form = form(&instruction, &constants)?;
        pieces.push(Piece { instruction, bytes: &bytes[start..decoder.position()], constants, form });
    }
    Ok(pieces)
}

fn form(instruction: &Instruction, constants: &ConstantOffsets) -> Result<Form, Refusal> {
    crate::instruction::check_movable(instruction)?;
    let at = ProcAddr(instruction.ip());
    if let Some(target) = near_target(instruction) {
        return match instruction.flow_control() {
            FlowControl::UnconditionalBranch => Ok(Form::Jump(target)),
            FlowControl::Call => Ok(Form::Call(target)),
            _ if is_counted(instruction.mnemonic()) => Ok(Form::Counted(target)),
            // iced numbers condition codes from 1 in the order of the encoding.
            FlowControl::ConditionalBranch => Ok(Form::Conditional(instruction.condition_code() as u8 - 1, target)),
            _ => Err(Refusal::Unmovable { at, what: "branch" }),
        };
    }
    if instruction.mnemonic() == Mnemonic::Call {
        return IndirectCall::of(instruction).map(Form::IndirectCall).ok_or(Refusal::Unmovable { at, what: "call" });
    }
    if !instruction.is_ip_rel_memory_operand() {
        return Ok(Form::Verbatim);
    }
    match instruction.memory_base() {
        Register::RIP if constants.displacement_size() == 4 => Ok(Form::RipRelative),
        _ => Err(Refusal::Unmovable { at, what: "32-bit relative operand" }),
    }
}

fn is_counted(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne | Mnemonic::Jrcxz | Mnemonic::Jecxz | Mnemonic::Jcxz
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (&'static str, &'static [u8], Result<&'static [u8], &'static str>);

    /// Moved from 0x1000 to 0x9000.
    #[test]
    fn forms() {
        let rows: &[Row] = &[
            ("verbatim", &[0x48, 0x89, 0xf8], Ok(&[0x48, 0x89, 0xf8])),
            ("repz_ret_keeps_its_prefix", &[0xf3, 0xc3], Ok(&[0xf3, 0xc3])),
            ("rip_relative", &[0x48, 0x8b, 0x05, 0, 0x90, 0, 0], Ok(&[0x48, 0x8b, 0x05, 0, 0x10, 0, 0])),
            // cmp byte [rip+0x9000], 7: the immediate lies behind the displacement.
            ("rip_relative_with_immediate", &[0x80, 0x3d, 0, 0x90, 0, 0, 7], Ok(&[0x80, 0x3d, 0, 0x10, 0, 0, 7])),
            // vmovdqu64 zmm0, [rip+0x9000]
            (
                "rip_relative_evex",
                &[0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x05, 0, 0x90, 0, 0],
                Ok(&[0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x05, 0, 0x10, 0, 0]),
            ),
            ("short_jump_grows", &[0xeb, 0x10], Ok(&[0xe9, 0x0d, 0x80, 0xff, 0xff])),
            ("near_jump", &[0xe9, 0, 0x90, 0, 0], Ok(&[0xe9, 0, 0x10, 0, 0])),
            ("short_branch_grows", &[0x74, 0x10], Ok(&[0x0f, 0x84, 0x0c, 0x80, 0xff, 0xff])),
            ("near_branch", &[0x0f, 0x8f, 0, 0x90, 0, 0], Ok(&[0x0f, 0x8f, 0, 0x10, 0, 0])),
            ("branch_to_the_first_moved", &[0x90, 0x75, 0xfd], Ok(&[0x90, 0x0f, 0x85, 0xf9, 0xff, 0xff, 0xff])),
            ("jrcxz", &[0xe3, 0x10], Ok(&[0xe3, 2, 0xeb, 5, 0xe9, 0x09, 0x80, 0xff, 0xff])),
            ("jecxz", &[0x67, 0xe3, 0x10], Ok(&[0x67, 0xe3, 2, 0xeb, 5, 0xe9, 0x09, 0x80, 0xff, 0xff])),
            ("loopne", &[0xe0, 0x10], Ok(&[0xe0, 2, 0xeb, 5, 0xe9, 0x09, 0x80, 0xff, 0xff])),
            ("indirect_jump_through_memory", &[0xff, 0x25, 0, 0x90, 0, 0], Ok(&[0xff, 0x25, 0, 0x10, 0, 0])),
            ("call_through_stack_pointer", &[0xff, 0xd4], Err("unmovable instruction")),
            ("int3", &[0xcc], Err("unmovable instruction")),
            ("ud2", &[0x0f, 0x0b], Err("unmovable instruction")),
            ("hlt", &[0xf4], Err("unmovable instruction")),
            ("syscall", &[0x0f, 0x05], Err("unmovable instruction")),
            ("xbegin", &[0xc7, 0xf8, 0, 0, 0, 0], Err("unmovable instruction")),
            ("32_bit_relative_operand", &[0x67, 0x8b, 0x05, 0, 0x90, 0, 0], Err("unmovable instruction")),
            ("cut_short", &[0x48, 0x8b], Err("undecodable")),
        ];
        for &(name, bytes, ref want) in rows {
            let got = relocate(bytes, ProcAddr(0x1000), ProcAddr(0x9000));
            let got = got.as_ref().map(|moved| moved.bytes.as_slice()).map_err(Refusal::label);
            assert_eq!(got, *want, "{name}");
        }
    }

    #[test]
    fn offsets_name_every_instruction() {
        let bytes = [0x90, 0x74, 0x10, 0xe3, 0x10, 0xc3];
        let moved = relocate(&bytes, ProcAddr(0x1000), ProcAddr(0x9000)).expect("all of these can be moved");
        let want = [(0x1000, 0x9000), (0x1001, 0x9001), (0x1003, 0x9007), (0x1005, 0x9010)];
        assert_eq!(moved.offsets, want.map(|(old, new)| (ProcAddr(old), ProcAddr(new))));
    }

    #[test]
    fn what_is_too_far_is_refused() {
        let far = 0x1000 + 0x9000_0000;
        for (name, bytes) in [("rip_relative", &[0x48, 0x8b, 0x05, 0, 0, 0, 0][..]), ("jump", &[0xeb, 0][..])] {
            let got = relocate(bytes, ProcAddr(0x1000), ProcAddr(far)).map_err(|refusal| refusal.label());
            assert_eq!(got, Err("out of reach"), "{name}");
        }
    }
}
