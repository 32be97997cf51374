//! The secret that both sides of a probe know.
//!
//! Next: `answer`, which compares it.

use std::fmt::Write as _;
use std::io::{self, Read};

/// Its length.
pub(super) const BYTES: usize = 16;

/// A secret.
#[derive(Clone)]
pub struct Secret([u8; BYTES]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn new() -> io::Result<Secret> {
        let mut bytes = [0; BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Secret(bytes))
    }

    /// From its text; `None`: it is none.
    pub fn parse(text: &str) -> Option<Secret> {
        let text = text.trim();
        if text.len() != 2 * BYTES || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Secret(bytes))
    }

    /// As text.
    pub fn text(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    pub(super) fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// Compares all bytes, however early they differ.
    pub(super) fn is(&self, other: &[u8]) -> bool {
        other.len() == BYTES && self.0.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        let secret = Secret::new().expect("random bytes");
        assert!(Secret::parse(&format!("{}\n", secret.text())).is_some_and(|same| secret.is(same.bytes())));
        for text in ["", "abc", &"g".repeat(32), &"é".repeat(16)] {
            assert!(Secret::parse(text).is_none(), "{text}");
        }
        assert!(!secret.is(&secret.bytes()[1..]) && !secret.is(Secret::new().expect("random bytes").bytes()));
    }
}
