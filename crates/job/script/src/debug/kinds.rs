//! Types: from those of the debugging information to those of the language.
//!
//! Structs are numbered and read when their members are asked for, so that types which contain themselves need no care.
//!
//! Next: `trimtab_symbols::dwarf::Types`, where they come from.

use super::{DebugFacts, Opened};
use trimtab_snippet::ir::Width;
use trimtab_snippet::types::{Bits, Member, Struct, StructId, Type, bytes_of, width_of};
use trimtab_symbols::dwarf::{
    BitField, Dimension, DwarfMember, DwarfType, Encoding, MemberOffset, TypeId, TypeKind, Types,
};

/// Pointers of pointers, arrays of arrays and names of names that are followed.
const NESTING_MAX: usize = 16;
/// Members of one struct at most, those of base classes and nameless members included.
const MEMBERS_MAX: usize = 1 << 14;
/// Names of types to suggest at most.
const SUGGESTIONS_MAX: usize = 2000;
/// The type whose values `sizeof` looks behind.
const DATATYPE: &str = "MPI_Datatype";

impl<'a> DebugFacts<'a> {
    /// A struct by its number.
    pub(crate) fn structure(&self, id: StructId) -> Option<Struct> {
        let (at, type_id) = *self.structs.borrow().get(id.0 as usize)?;
        structure(self, self.open(at)?, type_id)
    }

    /// A type by its name, in the first module that has one.
    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        self.all(None).find_map(|opened| {
            let mut types = opened.types.borrow_mut();
            let id = opened.program.type_named(name, None, &mut types).ok()?;
            Some(self.kind(opened, &types, id))
        })
    }

    /// Names of types that begin as `like` does, its word in front (`struct`) included.
    pub(crate) fn type_names(&self, like: &str) -> Vec<String> {
        let own = like.find(' ').map_or(0, |blank| blank + 1);
        let start: String = like[..own].chars().chain(like[own..].chars().take(1)).collect();
        let mut names = Vec::new();
        for opened in self.all(None) {
            names.extend(opened.program.type_names(&start, SUGGESTIONS_MAX - names.len()));
        }
        names
    }

    /// The value of an enumerator, in the first module that has one.
    pub(crate) fn enumerator(&self, name: &str) -> Option<i64> {
        self.all(None).find_map(|opened| {
            let found = opened.program.enumerator_named(name, None, &mut opened.types.borrow_mut());
            found.ok().map(|(value, _)| value)
        })
    }

    /// A type in the language's terms.
    pub(super) fn kind(&self, opened: &Opened<'a>, types: &Types, id: TypeId) -> Type {
        self.kind_within(opened, types, id, NESTING_MAX)
    }

    /// The target of a reference type; `None` for other types.
    pub(super) fn reference_target(&self, opened: &Opened<'a>, types: &Types, id: TypeId) -> Option<Type> {
        match types.get(types.stripped(id))?.kind {
            TypeKind::Reference { target, .. } => Some(self.kind(opened, types, target)),
            _ => None,
        }
    }

    fn kind_within(&self, opened: &Opened<'a>, types: &Types, id: TypeId, nesting: usize) -> Type {
        let size = types.size_of(id);
        let Some(found) = types.get(id).filter(|_| nesting > 0) else { return Type::Opaque(size) };
        let inner = |id: TypeId| self.kind_within(opened, types, id, nesting - 1);
        match &found.kind {
            TypeKind::Void | TypeKind::Function { .. } => Type::Void,
            TypeKind::Base(base) => number(base.encoding, size),
            TypeKind::Pointer(target) | TypeKind::Reference { target, .. } => inner(*target).pointer(),
            TypeKind::Record { .. } => Type::Struct(self.number_of(opened.at, id)),
            TypeKind::Array { element, dimensions, is_column_major, is_vector: false, dynamic: None } => {
                array(inner(*element), types.size_of(*element), dimensions, *is_column_major)
                    .unwrap_or(Type::Opaque(size))
            }
            TypeKind::Text { .. } => Type::Array(Box::new(Type::CHAR), size),
            TypeKind::Enumeration { .. } => enumeration(types, found, size),
            TypeKind::Typedef(_) if found.name.as_deref() == Some(DATATYPE) => handle(size),
            TypeKind::Typedef(target) | TypeKind::Qualified(_, target) => inner(*target),
            TypeKind::Array { .. } | TypeKind::MemberPointer(_) | TypeKind::Other(_) => Type::Opaque(size),
        }
    }

    fn number_of(&self, at: usize, id: TypeId) -> StructId {
        let mut structs = self.structs.borrow_mut();
        let known = structs.iter().position(|known| *known == (at, id));
        StructId(known.unwrap_or_else(|| {
            structs.push((at, id));
            structs.len() - 1
        }) as u32)
    }
}

fn handle(size: Option<u64>) -> Type {
    match size.and_then(width_of) {
        Some(width) => Type::Datatype(width),
        None => Type::Opaque(size),
    }
}

fn number(encoding: Encoding, size: Option<u64>) -> Type {
    let Some(width) = size.and_then(width_of) else { return Type::Opaque(size) };
    let int = |signed| Type::Int { width, signed };
    match encoding {
        Encoding::Signed | Encoding::SignedCharacter => int(true),
        Encoding::Unsigned | Encoding::UnsignedCharacter | Encoding::Unicode | Encoding::Boolean => int(false),
        Encoding::Float if matches!(width, Width::W32 | Width::W64) => Type::Float(width),
        Encoding::Float | Encoding::Complex | Encoding::Other(_) => Type::Opaque(size),
    }
}

/// An enumeration as the integer it is stored as.
fn enumeration(types: &Types, found: &DwarfType, size: Option<u64>) -> Type {
    let TypeKind::Enumeration { underlying, enumerators } = &found.kind else { return Type::Opaque(size) };
    let Some(width) = size.and_then(width_of) else { return Type::Opaque(size) };
    let base = underlying.and_then(|id| types.get(types.stripped(id)));
    let signed = match base.map(|base| &base.kind) {
        Some(TypeKind::Base(base)) => matches!(base.encoding, Encoding::Signed | Encoding::SignedCharacter),
        _ => enumerators.iter().any(|one| one.value < 0),
    };
    Type::Int { width, signed }
}

/// An array, nested so that the index that runs fastest is the last one; `None` if its elements do not lie side by side.
fn array(element: Type, element_bytes: Option<u64>, dimensions: &[Dimension], is_column_major: bool) -> Option<Type> {
    let mut kind = element;
    let mut bytes = element_bytes;
    let fastest_first: Vec<&Dimension> =
        if is_column_major { dimensions.iter().collect() } else { dimensions.iter().rev().collect() };
    for (number, dimension) in fastest_first.iter().enumerate() {
        let count = dimension.count.constant().and_then(|count| u64::try_from(count).ok());
        let stride = dimension.stride.constant();
        let is_packed = stride.is_none_or(|stride| u64::try_from(stride).ok() == bytes);
        // Only the slowest index may be of unknown length.
        if !is_packed || (count.is_none() && number + 1 < fastest_first.len()) {
            return None;
        }
        bytes = bytes.zip(count).and_then(|(bytes, count)| bytes.checked_mul(count));
        kind = Type::Array(Box::new(kind), count);
    }
    Some(kind)
}

/// A struct with its members; `None` if no unit of its module defines it.
fn structure<'a>(facts: &DebugFacts<'a>, opened: &Opened<'a>, id: TypeId) -> Option<Struct> {
    let mut types = opened.types.borrow_mut();
    let id = opened.program.completed(id, &mut types).ok()?;
    let found = types.get(id)?;
    let TypeKind::Record { is_declaration: false, .. } = found.kind else { return None };
    let bytes = found.size?;
    let name = found.name.clone().unwrap_or_default();
    let mut flat = Flat { facts, opened, types: &types, bytes, members: Vec::new() };
    flat.record(id, 0, NESTING_MAX);
    Some(Struct { name, bytes, members: flat.members })
}

/// Members of a record, those of base classes and nameless members among them.
struct Flat<'f, 'a> {
    facts: &'f DebugFacts<'a>,
    opened: &'f Opened<'a>,
    types: &'f Types,
    bytes: u64,
    members: Vec<Member>,
}

impl Flat<'_, '_> {
    fn record(&mut self, id: TypeId, base: u64, nesting: usize) {
        let Some(TypeKind::Record { members, .. }) = self.types.get(self.types.stripped(id)).map(|found| &found.kind)
        else {
            return;
        };
        if nesting == 0 {
            return;
        }
        // Own members hide those of base classes: they come first.
        for member in members.iter().filter(|member| !member.is_base) {
            self.member(member, base, nesting);
        }
        for member in members.iter().filter(|member| member.is_base) {
            self.member(member, base, nesting);
        }
    }

    fn member(&mut self, member: &DwarfMember, base: u64, nesting: usize) {
        // Where a virtual base class lies, only the object itself tells.
        let MemberOffset::Bytes(offset) = member.offset else { return };
        let offset = base.saturating_add(offset);
        let Some(name) = member.name.as_ref().filter(|_| !member.is_base) else {
            return self.record(member.type_id, offset, nesting - 1);
        };
        if self.members.len() >= MEMBERS_MAX {
            return;
        }
        let kind = self.facts.kind(self.opened, self.types, member.type_id);
        let found = match member.bits {
            Some(field) => bit_field(field, base, &kind, self.bytes),
            None => Some((offset, kind, None)),
        };
        let Some((offset, kind, bits)) = found else { return };
        self.members.push(Member { name: name.clone(), offset, kind, bits });
    }
}

/// The word that holds a bit field, and its bits there: the declared one, else a smaller or larger one, which must lie
/// in the record.
fn bit_field(field: BitField, base: u64, kind: &Type, bytes: u64) -> Option<(u64, Type, Option<Bits>)> {
    let Type::Int { width, signed } = *kind else { return None };
    let first = base.checked_mul(8)?.checked_add(field.offset_bits)?;
    let count = u8::try_from(field.size_bits).ok().filter(|count| (1..=64).contains(count))?;
    let widths = [width, Width::W8, Width::W16, Width::W32, Width::W64];
    let words = widths.map(|width| (width, bytes_of(width)));
    let aligned = words.iter().map(|(width, size)| (*width, *size, first / 8 / size * size));
    let unaligned = words.iter().map(|(width, size)| (*width, *size, first / 8));
    let holds = |(_, size, offset): &(Width, u64, u64)| {
        offset + size <= bytes && first + u64::from(count) <= (offset + size).saturating_mul(8)
    };
    let (width, _, offset) = aligned.chain(unaligned).find(holds)?;
    let shift = u8::try_from(first - offset * 8).ok()?;
    Some((offset, Type::Int { width, signed }, Some(Bits { shift, count })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(offset_bits: u64, size_bits: u64, bytes: u64) -> Option<(u64, u64, u8)> {
        let field = BitField { offset_bits, size_bits };
        let (offset, kind, bits) = bit_field(field, 0, &Type::INT, bytes)?;
        let Type::Int { width, signed: true } = kind else { panic!("{kind:?}") };
        Some((offset, bytes_of(width), bits?.shift))
    }

    #[test]
    fn bit_fields_lie_in_words_of_their_record() {
        for (offset_bits, size_bits, bytes, expected) in [
            (3, 5, 4, Some((0, 4, 3))),
            (35, 5, 8, Some((4, 4, 3))),
            // Packed: a word of the declared size would reach beyond the record.
            (35, 5, 5, Some((4, 1, 3))),
            // Packed: across two words.
            (28, 8, 8, Some((0, 8, 28))),
            (28, 8, 5, Some((3, 2, 4))),
            (0, 65, 16, None),
            (60, 8, 7, None),
        ] {
            assert_eq!(word(offset_bits, size_bits, bytes), expected, "{offset_bits}+{size_bits} of {bytes}");
        }
    }
}
