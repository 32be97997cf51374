//! The first bytes of a connection, in each direction: which protocol, which version, which tree, who, to whom.
//!
//! Magic and version stand first and stay where they are in every version, so any two can say that they differ. A
//! stranger is known by its first wrong byte.
//!
//! Next: `chunk` for what follows.

use crate::limits::HELLO_BYTES;

/// The protocol's version; raised when anything changes that an older program would misread.
pub const VERSION: u16 = 14;
/// Every connection begins with this.
const MAGIC: [u8; 8] = *b"trimtab\n";

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The controller.
    Root,
    /// It has children, or may have.
    Inner,
    /// It has ranks and no children.
    Leaf,
}

/// The node that speaks, and the one to which it thinks it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which version it speaks.
    pub version: u16,
    /// Of which tree it is; trees of one machine don't mix.
    pub tree: u64,
    /// Its place.
    pub from: u32,
    /// The node that it means.
    pub to: u32,
    /// Which life in its place.
    pub incarnation: u32,
    /// The role of the node that speaks.
    pub role: Role,
}

/// Why a connection's first bytes are no hello, or not one for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHello {
    /// They don't begin as ours do.
    #[error("the other end does not speak trimtab's protocol: is the port another program's?")]
    Magic,
    /// Another version.
    #[error(
        "the other end speaks version {theirs} of the protocol, this one {VERSION}: run the same trimtab on both ends"
    )]
    Version {
        /// The version at the other end.
        theirs: u16,
    },
    /// No such role.
    #[error("malformed hello (role {role}): close the connection")]
    Role {
        /// The byte.
        role: u8,
    },
}

impl Hello {
    /// Its bytes.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let role = match self.role {
            Role::Root => 0,
            Role::Inner => 1,
            Role::Leaf => 2,
        };
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10] = role;
        bytes[12..20].copy_from_slice(&self.tree.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.from.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.to.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, BadHello> {
        let [_, _, _, _, _, _, _, _, low, high, role, _, rest @ ..] = bytes;
        let version = u16::from_le_bytes([*low, *high]);
        if version != VERSION {
            return Err(BadHello::Version { theirs: version });
        }
        let role = match role {
            0 => Role::Root,
            1 => Role::Inner,
            2 => Role::Leaf,
            role => return Err(BadHello::Role { role: *role }),
        };
        let word = |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let tree = u64::from(word(0)) | u64::from(word(4)) << 32;
        Ok(Hello { version, tree, from: word(8), to: word(12), incarnation: word(16), role })
    }
}

/// Gathers a hello from the bytes of a connection.
#[derive(Debug)]
pub struct HelloReader {
    bytes: [u8; HELLO_BYTES],
    len: usize,
}

impl Default for HelloReader {
    fn default() -> Self {
        HelloReader { bytes: [0; HELLO_BYTES], len: 0 }
    }
}

impl HelloReader {
    /// Takes from what has arrived no more than belongs to the hello, which is returned once it is complete.
    ///
    /// # Errors
    /// As soon as a byte is wrong.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Result<Option<Hello>, BadHello> {
        let (now, later) = bytes.split_at((HELLO_BYTES - self.len).min(bytes.len()));
        self.bytes[self.len..self.len + now.len()].copy_from_slice(now);
        (self.len, *bytes) = (self.len + now.len(), later);
        let seen = self.len.min(MAGIC.len());
        if self.bytes[..seen] != MAGIC[..seen] {
            return Err(BadHello::Magic);
        }
        if self.len >= 10 && self.bytes[8..10] != VERSION.to_le_bytes() {
            return Err(BadHello::Version { theirs: u16::from_le_bytes([self.bytes[8], self.bytes[9]]) });
        }
        if self.len < HELLO_BYTES { Ok(None) } else { Hello::decode(&self.bytes).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8], cut: usize) -> Result<Option<Hello>, BadHello> {
        let mut reader = HelloReader::default();
        for mut piece in bytes.chunks(cut) {
            if let Some(hello) = reader.feed(&mut piece)? {
                return Ok(Some(hello));
            }
        }
        Ok(None)
    }

    const EXAMPLE: Hello =
        Hello { version: VERSION, tree: 0x0102_0304_0506_0708, from: 9, to: 3, incarnation: 77, role: Role::Inner };

    #[test]
    fn a_hello_comes_through_in_any_pieces_and_leaves_the_rest() {
        for cut in 1..=HELLO_BYTES {
            assert_eq!(read(&EXAMPLE.encode(), cut), Ok(Some(EXAMPLE)), "{cut}");
        }
        let bytes = [&EXAMPLE.encode()[..], b"rest"].concat();
        let mut rest = &bytes[..];
        assert_eq!(HelloReader::default().feed(&mut rest), Ok(Some(EXAMPLE)));
        assert_eq!(rest, b"rest");
        assert_eq!(read(&EXAMPLE.encode()[..HELLO_BYTES - 1], 7), Ok(None));
    }

    #[test]
    fn strangers_are_known_by_their_first_wrong_byte() {
        let theirs = VERSION + 1;
        let newer = Hello { version: theirs, ..EXAMPLE }.encode();
        let mut odd = EXAMPLE.encode();
        odd[10] = 9;
        for (name, bytes, expected) in [
            ("text", &b"G"[..], BadHello::Magic),
            ("half of it", b"trimtaX", BadHello::Magic),
            ("newer", &newer[..10], BadHello::Version { theirs }),
            ("role", &odd, BadHello::Role { role: 9 }),
        ] {
            assert_eq!(read(bytes, 1), Err(expected), "{name}");
        }
        let text = BadHello::Version { theirs: 4711 }.to_string();
        let expected = format!("the other end speaks version 4711 of the protocol, this one {VERSION}: ");
        assert_eq!(text, expected + "run the same trimtab on both ends");
    }

    proptest! {
        #[test]
        fn hostile_bytes_give_a_hello_or_an_error(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..60), ours in 0_usize..12, cut in 1_usize..60,
        ) {
            let good = EXAMPLE.encode();
            let ours = ours.min(bytes.len());
            bytes[..ours].copy_from_slice(&good[..ours]);
            if let Ok(Some(hello)) = read(&bytes, cut) {
                prop_assert_eq!(&hello.encode()[..11], &bytes[..11]);
            }
        }
    }
}
