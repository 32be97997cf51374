//! The two jumps that patches are made of.
//!
//! Next: `site` for which of them fits, `relocate` for the code they lead to.

use crate::Refusal;
use trimtab_types::ProcAddr;

/// Bytes of `jmp rel32`.
pub const NEAR_JUMP_LEN: u64 = 5;
/// Bytes of `jmp rel8`.
pub const SHORT_JUMP_LEN: u64 = 2;

/// `jmp rel32` at `from` to `to`.
///
/// # Errors
/// [`Refusal::OutOfReach`] if they are more than 2 GiB apart.
pub fn encode_near_jump(from: ProcAddr, to: ProcAddr) -> Result<[u8; 5], Refusal> {
    let [a, b, c, d] = displacement32(from.0.wrapping_add(NEAR_JUMP_LEN), to)
        .ok_or(Refusal::OutOfReach { from, target: to })?
        .to_le_bytes();
    Ok([0xe9, a, b, c, d])
}

/// `jmp rel8` at `from` to `to`.
///
/// # Errors
/// [`Refusal::OutOfReach`] if `to` is not within -128 to 127 bytes of the jump's end.
pub fn encode_short_jump(from: ProcAddr, to: ProcAddr) -> Result<[u8; 2], Refusal> {
    let distance = to.0.wrapping_sub(from.0.wrapping_add(SHORT_JUMP_LEN)) as i64;
    let displacement = i8::try_from(distance).map_err(|_| Refusal::OutOfReach { from, target: to })?;
    Ok([0xeb, displacement as u8])
}

/// The 32-bit displacement from the end of an instruction to `target`, if it reaches.
pub(crate) fn displacement32(next: u64, target: ProcAddr) -> Option<i32> {
    i32::try_from(target.0.wrapping_sub(next) as i64).ok()
}

/// The conditional jump `last` so that, where it is taken, it passes over a near jump that follows it.
pub(crate) fn taken_over_near_jump(last: &[u8]) -> Vec<u8> {
    // An 8-bit displacement reaches that far, whatever the condition: flags, or a counter that has no longer form.
    const LONG_CONDITIONAL: u8 = 0x0f;
    let condition = last.iter().position(|byte| *byte == LONG_CONDITIONAL).and_then(|at| last.get(at + 1));
    let mut bytes = match (last.len() > 4, condition) {
        (true, Some(condition)) => vec![(condition & 0x0f) | 0x70],
        _ => last[..last.len() - 1].to_vec(),
    };
    bytes.push(NEAR_JUMP_LEN as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_jumps() {
        let rows: &[(&str, u64, u64, Option<[u8; 5]>)] = &[
            ("forward", 0x1000, 0x1010, Some([0xe9, 0x0b, 0, 0, 0])),
            ("itself", 0x1000, 0x1000, Some([0xe9, 0xfb, 0xff, 0xff, 0xff])),
            ("farthest", 0x1000, 0x1005 + 0x7fff_ffff, Some([0xe9, 0xff, 0xff, 0xff, 0x7f])),
            ("one too far", 0x1000, 0x1005 + 0x8000_0000, None),
            ("farthest back", 0x1_0000_0000, 0x1_0000_0005 - 0x8000_0000, Some([0xe9, 0, 0, 0, 0x80])),
            ("one too far back", 0x1_0000_0000, 0x1_0000_0004 - 0x8000_0000, None),
        ];
        for &(name, from, to, ref want) in rows {
            assert_eq!(encode_near_jump(ProcAddr(from), ProcAddr(to)).ok(), *want, "{name}");
        }
    }

    #[test]
    fn conditions_of_every_form() {
        let rows: &[(&str, &[u8], &[u8])] = &[
            ("short", &[0x74, 0x80], &[0x74, 5]),
            ("long", &[0x0f, 0x8f, 1, 2, 3, 4], &[0x7f, 5]),
            ("hinted", &[0x3e, 0x0f, 0x84, 1, 2, 3, 4], &[0x74, 5]),
            ("counter", &[0xe3, 0x0f], &[0xe3, 5]),
            ("narrow counter", &[0x67, 0xe2, 0xf0], &[0x67, 0xe2, 5]),
        ];
        for (name, last, want) in rows {
            assert_eq!(taken_over_near_jump(last), *want, "{name}");
        }
    }

    #[test]
    fn short_jumps() {
        let rows: &[(&str, u64, u64, Option<[u8; 2]>)] = &[
            ("next", 0x1000, 0x1002, Some([0xeb, 0])),
            ("farthest", 0x1000, 0x1002 + 127, Some([0xeb, 0x7f])),
            ("one too far", 0x1000, 0x1002 + 128, None),
            ("farthest back", 0x1000, 0x1002 - 128, Some([0xeb, 0x80])),
            ("one too far back", 0x1000, 0x1002 - 129, None),
        ];
        for &(name, from, to, ref want) in rows {
            assert_eq!(encode_short_jump(ProcAddr(from), ProcAddr(to)).ok(), *want, "{name}");
        }
    }
}
