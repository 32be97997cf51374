//! Types of the program's values, as far as expressions need them.
//!
//! Next: `facts`, which hands them out.

use crate::ir::Width;
use std::fmt;

/// A type of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// No value.
    Void,
    /// An integer, a character, a bool or an enumeration.
    Int {
        /// Its size.
        width: Width,
        /// True if it is signed.
        signed: bool,
    },
    /// A float: `W32` or `W64`.
    Float(Width),
    /// An address of something.
    Pointer(Box<Type>),
    /// Elements side by side; the count if it is known.
    Array(Box<Type>, Option<u64>),
    /// A struct, class or union.
    Struct(StructId),
    /// A handle of an MPI datatype: `sizeof` means the size of what it describes.
    Datatype(Width),
    /// Something expressions cannot look into; its size in bytes if known.
    Opaque(Option<u64>),
}

/// Which struct, as the facts count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StructId(pub u32);

/// A struct, class or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its name, for messages; may be empty.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its members, those of base classes included.
    pub members: Vec<Member>,
}

/// A member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Bytes from the start of the struct.
    pub offset: u64,
    /// Its type; of a bit field the type of the word that holds it.
    pub kind: Type,
    /// For bit fields, where in that word.
    pub bits: Option<Bits>,
}

/// A bit field's place in its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Bits below it.
    pub shift: u8,
    /// Its own bits, at least 1; `shift + count` is at most 64.
    pub count: u8,
}

impl Type {
    /// `long`.
    pub const LONG: Type = Type::Int { width: Width::W64, signed: true };
    /// `unsigned long`.
    pub const UNSIGNED_LONG: Type = Type::Int { width: Width::W64, signed: false };
    /// `int`.
    pub const INT: Type = Type::Int { width: Width::W32, signed: true };
    /// `char`.
    pub const CHAR: Type = Type::Int { width: Width::W8, signed: true };
    /// `double`.
    pub const DOUBLE: Type = Type::Float(Width::W64);

    /// The address of such a value.
    pub fn pointer(self) -> Type {
        Type::Pointer(Box::new(self))
    }

    /// The type that one of C's own names means, words in any order.
    pub fn named(name: &str) -> Option<Type> {
        let mut words: Vec<&str> = name.split(' ').collect();
        let unsigned = words.contains(&"unsigned");
        let signed = words.contains(&"signed");
        words.retain(|word| !matches!(*word, "unsigned" | "signed"));
        words.sort_unstable();
        let width = match words.as_slice() {
            ["char"] => Width::W8,
            ["short"] | ["int", "short"] => Width::W16,
            ["int"] => Width::W32,
            [] if unsigned || signed => Width::W32,
            ["long"] | ["int", "long"] | ["long", "long"] | ["int", "long", "long"] => Width::W64,
            other if !unsigned && !signed => return Type::named_otherwise(other),
            _ => return None,
        };
        (!(unsigned && signed)).then_some(Type::Int { width, signed: !unsigned })
    }

    fn named_otherwise(words: &[&str]) -> Option<Type> {
        let int = |width, signed| Some(Type::Int { width, signed });
        match words {
            ["void"] => Some(Type::Void),
            ["float"] => Some(Type::Float(Width::W32)),
            ["double"] => Some(Type::DOUBLE),
            ["bool" | "_Bool" | "uint8_t"] => int(Width::W8, false),
            ["int8_t"] => int(Width::W8, true),
            ["int16_t"] => int(Width::W16, true),
            ["uint16_t"] => int(Width::W16, false),
            ["int32_t"] => int(Width::W32, true),
            ["uint32_t"] => int(Width::W32, false),
            ["int64_t" | "ssize_t" | "intptr_t" | "ptrdiff_t"] => int(Width::W64, true),
            ["uint64_t" | "size_t" | "uintptr_t"] => int(Width::W64, false),
            _ => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Void => write!(f, "void"),
            Type::Int { width, signed } => {
                let name = match width {
                    Width::W8 => "char",
                    Width::W16 => "short",
                    Width::W32 => "int",
                    Width::W64 => "long",
                };
                write!(f, "{}{name}", if *signed { "" } else { "unsigned " })
            }
            Type::Float(Width::W32) => write!(f, "float"),
            Type::Float(_) => write!(f, "double"),
            Type::Pointer(target) => match **target {
                Type::Pointer(_) => write!(f, "{target}*"),
                _ => write!(f, "{target} *"),
            },
            Type::Array(element, Some(count)) => write!(f, "{element}[{count}]"),
            Type::Array(element, None) => write!(f, "{element}[]"),
            Type::Struct(_) => write!(f, "a struct"),
            Type::Datatype(_) => write!(f, "an MPI datatype"),
            Type::Opaque(_) => write!(f, "a value of unknown make"),
        }
    }
}

/// The width of so many bytes.
pub fn width_of(bytes: u64) -> Option<Width> {
    match bytes {
        1 => Some(Width::W8),
        2 => Some(Width::W16),
        4 => Some(Width::W32),
        8 => Some(Width::W64),
        _ => None,
    }
}

/// Bytes of a width.
pub fn bytes_of(width: Width) -> u64 {
    match width {
        Width::W8 => 1,
        Width::W16 => 2,
        Width::W32 => 4,
        Width::W64 => 8,
    }
}
