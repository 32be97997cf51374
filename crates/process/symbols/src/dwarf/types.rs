//! Types as a list that refers to itself by position: recursive types need no special care, and nothing is borrowed.
//!
//! Next: `read_types` for how they are read, [`super::Program::type_named`] for look-ups.

use super::expression::Expression;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Arrays within arrays, and anonymous members within each other, that are followed.
const NESTING_MAX: usize = 32;
/// Records looked at for one member.
const RECORDS_MAX: usize = 1024;

/// Types that belong together: those of all answers it was given to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Types {
    pub(crate) list: Vec<DwarfType>,
    /// Position by the entry it was read from; `u32::MAX` for `void`.
    pub(crate) by_entry: HashMap<u32, TypeId>,
    /// Entries that were read so far.
    pub(crate) entries_read: usize,
}

/// A type in a [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TypeId(pub(crate) u32);

/// One type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DwarfType {
    /// Its own name, without scopes and without `struct`.
    pub name: Option<String>,
    /// Bytes; `None` where only its definition elsewhere, or the running program, tells.
    pub size: Option<u64>,
    /// Its kind.
    pub kind: TypeKind,
}

/// The kind of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TypeKind {
    /// No value.
    Void,
    /// A number, character or truth value.
    Base(Base),
    /// The address of a `target`.
    Pointer(TypeId),
    /// A C++ reference: an address that is used as what lies there.
    Reference {
        /// The type of the value there.
        target: TypeId,
        /// `&&`.
        is_rvalue: bool,
    },
    /// A C++ pointer to a member.
    MemberPointer(TypeId),
    /// A structure, class or union.
    Record {
        /// Which.
        kind: RecordKind,
        /// Members and base classes, in order.
        members: Vec<DwarfMember>,
        /// It is declared only; see [`super::Program::completed`].
        is_declaration: bool,
        /// The way C++ passes it to functions, if known: `true` by address, `false` by value. Its members may
        /// decide otherwise where nothing is.
        passed_by_address: Option<bool>,
    },
    /// An array.
    Array {
        /// The type of its elements.
        element: TypeId,
        /// Its dimensions: C's leftmost first, Fortran's fastest-running first.
        dimensions: Vec<Dimension>,
        /// The leftmost dimension runs fastest (Fortran).
        is_column_major: bool,
        /// It is a vector that is passed in a vector register.
        is_vector: bool,
        /// Where its elements are, if elsewhere.
        dynamic: Option<Box<Dynamic>>,
    },
    /// Text of a length (Fortran's `character`).
    Text {
        /// Its length in characters, where it is not [`DwarfType::size`].
        length: Bound,
    },
    /// Named numbers.
    Enumeration {
        /// The integer type that it is stored as.
        underlying: Option<TypeId>,
        /// The names.
        enumerators: Vec<Enumerator>,
    },
    /// Another name.
    Typedef(TypeId),
    /// The same, but constant, volatile, ...
    Qualified(Qualifier, TypeId),
    /// Code; values are pointers to it.
    Function {
        /// The type it returns.
        result: TypeId,
        /// The types of its parameters.
        parameters: Vec<TypeId>,
        /// And further arguments (`...`).
        is_variadic: bool,
    },
    /// Something else, with DWARF's tag in words.
    Other(String),
}

/// How a number is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The meaning of its bits.
    pub encoding: Encoding,
}

/// The meaning of a number's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// Two's complement.
    Signed,
    /// Never negative.
    Unsigned,
    /// A character with a sign.
    SignedCharacter,
    /// A character without one.
    UnsignedCharacter,
    /// A Unicode character (`char16_t`).
    Unicode,
    /// 0 is false.
    Boolean,
    /// IEEE 754, or x87's 80 bits in 16 bytes.
    Float,
    /// Two floating-point numbers.
    Complex,
    /// Another one, by its DWARF number.
    Other(u8),
}

/// Which kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RecordKind {
    Struct,
    Class,
    Union,
}

/// The addition of a qualified type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Qualifier {
    Const,
    Volatile,
    Restrict,
    Atomic,
}

/// A member, or a base class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DwarfMember {
    /// Its name; none for anonymous structs and unions, whose members count as the outer one's.
    pub name: Option<String>,
    /// Its type.
    pub type_id: TypeId,
    /// Where it begins.
    pub offset: MemberOffset,
    /// Its bits, if it is a bit field.
    pub bits: Option<BitField>,
    /// It is a base class, whose members count as the derived one's.
    pub is_base: bool,
    /// The compiler added it (`_vptr`).
    pub is_artificial: bool,
}

/// Where a member begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MemberOffset {
    /// Bytes from the record's beginning; for a bit field, of the byte its first bit is in.
    Bytes(u64),
    /// A virtual base class: its address, from the record's ([`Expression::Object`]).
    Address(Expression),
}

/// The bits of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BitField {
    /// The first one, counted from the record's first byte, low bits first.
    pub offset_bits: u64,
    /// How many.
    pub size_bits: u64,
}

/// One dimension of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dimension {
    /// The lowest index.
    pub lower: Bound,
    /// How many elements.
    pub count: Bound,
    /// The highest index, where the count is not known but this is.
    pub upper: Bound,
    /// Bytes from one element to the next, where that is not its size.
    pub stride: Bound,
}

/// A number of an array's shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Bound {
    /// Not stated.
    Unknown,
    /// Known to the compiler.
    Constant(i64),
    /// Known to the running program.
    Computed(Expression),
    /// The value of this variable.
    Variable(super::EntryId),
}

/// An array whose variable holds a description of it (Fortran's assumed shape, pointers, allocatables).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dynamic {
    /// The address of its first element; [`Expression::Object`] is the variable's own.
    pub data: Option<Expression>,
    /// Not 0 if it is allocated, for allocatable ones.
    pub allocated: Option<Expression>,
    /// Not 0 if it points somewhere, for pointers.
    pub associated: Option<Expression>,
}

/// One name of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enumerator {
    /// The name.
    pub name: String,
    /// Its number; unsigned ones of 64 bits wrap around.
    pub value: i64,
}

impl Bound {
    /// The number, if the compiler knew it.
    pub fn constant(&self) -> Option<i64> {
        match self {
            Bound::Constant(value) => Some(*value),
            _ => None,
        }
    }
}

impl Types {
    /// The type at a position, which another `Types` may have given: then there may be none.
    pub fn get(&self, id: TypeId) -> Option<&DwarfType> {
        self.list.get(id.0 as usize)
    }

    /// All types, in the order in which they were read.
    pub fn ids(&self) -> impl Iterator<Item = TypeId> + use<> {
        (0..self.list.len() as u32).map(TypeId)
    }

    /// How many types there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True if there is no type yet.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The type behind typedefs and qualifiers.
    pub fn stripped(&self, mut id: TypeId) -> TypeId {
        // A chain longer than the list goes in a circle.
        for _ in 0..self.list.len() {
            match self.get(id).map(|found| &found.kind) {
                Some(TypeKind::Typedef(target) | TypeKind::Qualified(_, target)) => id = *target,
                _ => break,
            }
        }
        id
    }

    /// Bytes of a value, through typedefs and of whole arrays; `None` where only the running program tells.
    pub fn size_of(&self, id: TypeId) -> Option<u64> {
        let mut factor = 1_u64;
        let mut id = self.stripped(id);
        for _ in 0..NESTING_MAX {
            let found = self.get(id)?;
            match (&found.kind, found.size) {
                (_, Some(size)) => return size.checked_mul(factor),
                (TypeKind::Array { element, dimensions, dynamic: None, .. }, None) => {
                    for dimension in dimensions {
                        factor = factor.checked_mul(u64::try_from(dimension.count.constant()?).ok()?)?;
                    }
                    id = self.stripped(*element);
                }
                (TypeKind::Enumeration { underlying: Some(underlying), .. }, None) => id = self.stripped(*underlying),
                _ => return None,
            }
        }
        None
    }

    /// The member of this name of a record, also within its anonymous members and base classes: the members on the way,
    /// the named one last. Nearer ones hide farther ones, as in C++.
    pub fn member(&self, record: TypeId, name: &str) -> Option<Vec<&DwarfMember>> {
        // By distance; each record is looked at once, so that circles end.
        let mut paths: Vec<(TypeId, Vec<&DwarfMember>)> = vec![(self.stripped(record), Vec::new())];
        let mut at = 0;
        while let Some((record, path)) = paths.get(at).cloned() {
            at += 1;
            let Some(TypeKind::Record { members, .. }) = self.get(record).map(|found| &found.kind) else { continue };
            let extended = |member| path.iter().copied().chain([member]).collect::<Vec<_>>();
            if let Some(member) = members.iter().find(|member| !member.is_base && member.name.as_deref() == Some(name))
            {
                return Some(extended(member));
            }
            for member in members.iter().filter(|member| member.is_base || member.name.is_none()) {
                let inner = self.stripped(member.type_id);
                if path.len() < NESTING_MAX
                    && paths.len() < RECORDS_MAX
                    && !paths.iter().any(|(seen, _)| *seen == inner)
                {
                    paths.push((inner, extended(member)));
                }
            }
        }
        None
    }
}
