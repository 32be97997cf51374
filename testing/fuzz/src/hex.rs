//! Inputs as text: pairs of hexadecimal digits, 32 bytes a line; what follows `#` is for people.
//!
//! Next: `corpus`, whose files these are.

use std::fmt::Write;

const BYTES_PER_LINE: usize = 32;

/// Bytes as lines of text.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2 + bytes.len() / BYTES_PER_LINE + 1);
    for line in bytes.chunks(BYTES_PER_LINE) {
        for byte in line {
            // A string takes whatever is written.
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    text
}

/// The bytes again; `None` if the text is something else.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let digits: Option<Vec<u8>> =
        lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).map(|c| Some(c.to_digit(16)? as u8)).collect();
    let digits = digits?;
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_there_and_back() {
        for bytes in [vec![], vec![0], (0..=255).collect::<Vec<u8>>()] {
            assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        }
        assert_eq!(from_hex("# a note\n0f 1E # two\n"), Some(vec![0x0f, 0x1e]));
        assert_eq!((from_hex("0"), from_hex("0g")), (None, None));
    }
}
