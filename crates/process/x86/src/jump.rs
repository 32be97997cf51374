//! The two jumps that patches are made of.
//!
//! Next: `site` for which of them fits, `relocate` for the code they lead to.

use crate::Refusal;

/// Bytes of `jmp rel32`.
pub const NEAR_JUMP_LEN: u64 = 5;
/// Bytes of `jmp rel8`.
pub const SHORT_JUMP_LEN: u64 = 2;

/// `jmp rel32` at `from` to `to`.
///
/// # Errors
/// [`Refusal::OutOfReach`] if they are more than 2 GiB apart.
pub fn encode_near_jump(from: u64, to: u64) -> Result<[u8; 5], Refusal> {
    let [a, b, c, d] = displacement32(from.wrapping_add(NEAR_JUMP_LEN), to)
        .ok_or(Refusal::OutOfReach { from, target: to })?
        .to_le_bytes();
    Ok([0xe9, a, b, c, d])
}

/// `jmp rel8` at `from` to `to`.
///
/// # Errors
/// [`Refusal::OutOfReach`] if `to` is not within -128 to 127 bytes of the jump's end.
pub fn encode_short_jump(from: u64, to: u64) -> Result<[u8; 2], Refusal> {
    let distance = to.wrapping_sub(from.wrapping_add(SHORT_JUMP_LEN)) as i64;
    let displacement = i8::try_from(distance).map_err(|_| Refusal::OutOfReach { from, target: to })?;
    Ok([0xeb, displacement as u8])
}

/// The 32-bit displacement from the end of an instruction to `target`, if it reaches.
pub(crate) fn displacement32(next: u64, target: u64) -> Option<i32> {
    i32::try_from(target.wrapping_sub(next) as i64).ok()
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
            assert_eq!(encode_near_jump(from, to).ok(), *want, "{name}");
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
            assert_eq!(encode_short_jump(from, to).ok(), *want, "{name}");
        }
    }
}
