//! Reads types: an entry and all it refers to, each once, into a [`Types`].
//!
//! A type's place in the list is given out before it is read, so types that contain themselves are no special case, and
//! a list of what is still to be read takes the place of recursion.
//!
//! Next: `types` for what comes out.

use super::error::LookupError;
use super::expression::{Expression, Reader};
use super::index::Kind;
use super::program::{EntryId, Program};
use super::types::{
    Base, BitField, Bound, Dimension, DwarfMember, DwarfType, Dynamic, Encoding, Enumerator, MemberOffset, Qualifier,
    RecordKind, TypeId, TypeKind, Types,
};
use super::units::{Die, Unit, Walk, is_fortran};
use gimli::{AttributeValue, DwAt};

/// The place in [`Types::by_entry`] of what no entry stands for.
const VOID: u32 = u32::MAX;
/// The same of what lies in another file.
const ELSEWHERE: u32 = u32::MAX - 1;
/// Entries read for one [`Types`] at most: some hundred times what a large program's types need.
const ENTRIES_MAX: usize = 1 << 24;
/// An entry that is skipped counts as one for so many bytes.
const SKIPPED_ENTRY_BYTES: usize = 64;
/// Candidates of one name that are compared, where each unit has its own copy of a type.
const CANDIDATES_MAX: usize = 4096;
/// Names listed where a type is ambiguous.
const LISTED_MAX: usize = 8;
/// Words in front of a type's name that say its kind.
const KEYWORDS: &[(&str, &[gimli::DwTag])] = &[
    ("struct ", &[gimli::DW_TAG_structure_type, gimli::DW_TAG_class_type]),
    ("class ", &[gimli::DW_TAG_class_type, gimli::DW_TAG_structure_type]),
    ("union ", &[gimli::DW_TAG_union_type]),
    ("enum ", &[gimli::DW_TAG_enumeration_type]),
];

impl<'a> Program<'a> {
    /// The type of this name: `int`, `size_t`, `struct foo`, `ns::Class`. Without a word in front, C++'s classes and
    /// C's typedefs match, and a C structure does too if nothing else has the name.
    ///
    /// Each unit that includes a header has its own copy of its types. The one of the unit that holds `near` (the
    /// function a probe is in, say) comes first; otherwise copies must agree in their size.
    ///
    /// # Errors
    /// [`LookupError::NotFound`]; [`LookupError::Ambiguous`] if copies differ in size; [`LookupError::Damaged`].
    pub fn type_named(&self, name: &str, near: Option<EntryId>, types: &mut Types) -> Result<TypeId, LookupError> {
        let what = "type";
        let (word, tags) = keyword(name).unwrap_or(("", &[]));
        let bare = name[word.len()..].trim();
        let mut found: Vec<(EntryId, Die<'a>)> = Vec::new();
        for entry in self.entries_named(bare, Kind::Type).into_iter().take(CANDIDATES_MAX) {
            let (die, _) = self.units.die(entry.0)?;
            if tags.is_empty() || tags.contains(&die.tag) {
                found.push((entry, die));
            }
        }
        let unit = near.map(|near| self.units.unit_of(near.0)).transpose()?.map(|unit| unit.index);
        let is_near = |entry: &EntryId| self.units.unit_of(entry.0).is_ok_and(|found| Some(found.index) == unit);
        if let Some((entry, _)) = found.iter().find(|(entry, _)| is_near(entry)) {
            return self.read_type(entry.0, types);
        }
        let Some((first, _)) = found.first() else {
            return Err(LookupError::NotFound { what, name: name.to_string(), near: Vec::new() });
        };
        let size = |die: &Die<'a>| die.unsigned(gimli::DW_AT_byte_size);
        if found.iter().any(|(_, die)| size(die) != size(&found[0].1)) {
            let words = |(entry, die): &(EntryId, Die<'a>)| {
                let unit = self.units.unit_of(entry.0).ok().and_then(|unit| unit.inner.name);
                let unit = unit.map_or_else(|| "?".to_string(), |unit| unit.to_string_lossy().into_owned());
                format!("{name} of {} bytes in {unit}", size(die).unwrap_or(0))
            };
            let candidates = found.iter().take(LISTED_MAX).map(words).collect();
            return Err(LookupError::Ambiguous { what, name: name.to_string(), candidates });
        }
        self.read_type(first.0, types)
    }

    /// The value of an enumerator, and its enumeration: in the unit that holds `near` if it has one, else in any.
    ///
    /// # Errors
    /// [`LookupError::NotFound`]; [`LookupError::Damaged`].
    pub fn enumerator_named(
        &self,
        name: &str,
        near: Option<EntryId>,
        types: &mut Types,
    ) -> Result<(i64, TypeId), LookupError> {
        let found = self.entries_named(name, Kind::Enumerator);
        let unit = near.map(|near| self.units.unit_of(near.0)).transpose()?.map(|unit| unit.index);
        let is_near = |entry: &&EntryId| self.units.unit_of(entry.0).is_ok_and(|found| Some(found.index) == unit);
        let entry = found.iter().find(is_near).or(found.first());
        let missing = || LookupError::NotFound { what: "enumerator", name: name.to_string(), near: Vec::new() };
        let entry = entry.ok_or_else(missing)?;
        let (die, _) = self.units.die(entry.0)?;
        let around = self.index().scopes_around(entry.0).next().ok_or_else(missing)?;
        Ok((number(&die, gimli::DW_AT_const_value).unwrap_or(0), self.read_type(around, types)?))
    }

    /// The definition of a record that is declared only in the unit it was read from; itself if it is complete, or if
    /// no unit has one.
    ///
    /// # Errors
    /// As [`Program::type_named`].
    pub fn completed(&self, id: TypeId, types: &mut Types) -> Result<TypeId, LookupError> {
        let id = types.stripped(id);
        let Some(TypeKind::Record { is_declaration: true, .. }) = types.get(id).map(|found| &found.kind) else {
            return Ok(id);
        };
        let entry = types.by_entry.iter().find(|(_, known)| **known == id).map(|(entry, _)| EntryId(*entry));
        let Some(entry) = entry else { return Ok(id) };
        let name = self.full_name(entry)?;
        match self.type_named(&name, None, types) {
            Err(LookupError::NotFound { .. }) => Ok(id),
            other => other,
        }
    }

    /// The type an entry's attribute refers to; `void` if it has none.
    pub(crate) fn type_of(&self, unit: &Unit<'a>, die: &Die<'a>, types: &mut Types) -> Result<TypeId, LookupError> {
        match self.units.follow(unit, die, gimli::DW_AT_type) {
            Some(entry) => self.read_type(entry, types),
            None if die.has(gimli::DW_AT_type) => Ok(elsewhere(types)),
            None => Ok(void(types)),
        }
    }

    /// Reads a type and all it refers to.
    pub(crate) fn read_type(&self, entry: u32, types: &mut Types) -> Result<TypeId, LookupError> {
        let before = types.list.len();
        let id = place_for(types, entry);
        if (id.0 as usize) < before {
            return Ok(id);
        }
        let mut reader = TypeReader { program: self, types, to_read: vec![(entry, id)] };
        while let Some((entry, id)) = reader.to_read.pop() {
            // A damaged type stays of an unknown kind; a type that refers to it is sound.
            if let Ok(found) = reader.read(entry) {
                reader.types.list[id.0 as usize] = found;
            }
        }
        Ok(id)
    }
}

/// The word in front of a type's name, and what it may stand for.
pub(crate) fn keyword(name: &str) -> Option<(&'static str, &'static [gimli::DwTag])> {
    KEYWORDS.iter().copied().find(|(word, _)| name.starts_with(word))
}

/// The place of an entry's type in the list, given out at the first call.
fn place_for(types: &mut Types, entry: u32) -> TypeId {
    let next = TypeId(u32::try_from(types.list.len()).unwrap_or(u32::MAX));
    let id = *types.by_entry.entry(entry).or_insert(next);
    if id == next {
        let kind = TypeKind::Other("not readable".to_string());
        types.list.push(DwarfType { name: None, size: None, kind });
    }
    id
}

fn void(types: &mut Types) -> TypeId {
    let id = place_for(types, VOID);
    types.list[id.0 as usize].kind = TypeKind::Void;
    id
}

/// A type in a file that is not read: not known, and by no means `void`.
fn elsewhere(types: &mut Types) -> TypeId {
    let id = place_for(types, ELSEWHERE);
    types.list[id.0 as usize].kind = TypeKind::Other("in another file".to_string());
    id
}

struct TypeReader<'p, 't, 'a> {
    program: &'p Program<'a>,
    types: &'t mut Types,
    to_read: Vec<(u32, TypeId)>,
}

impl<'p, 'a> TypeReader<'p, '_, 'a> {
    fn read(&mut self, entry: u32) -> Result<DwarfType, LookupError> {
        let mut walk = self.program.units.walk(entry)?;
        self.next(&mut walk)?;
        let (die, unit) = (walk.die.clone(), walk.unit);
        if let Some(definition) = self.program.units.follow(unit, &die, gimli::DW_AT_signature) {
            // A stub in place of a type that has a unit of its own.
            if definition != entry {
                return self.read_signed(definition);
            }
        }
        let units = &self.program.units;
        let text = units.text(unit, &die, gimli::DW_AT_name);
        let name = text.map(|text| text.to_string_lossy().into_owned());
        let kind = self.kind(&die, &mut walk)?;
        let mut size = die.unsigned(gimli::DW_AT_byte_size);
        if size.is_none() && matches!(kind, TypeKind::Pointer(_) | TypeKind::Reference { .. }) {
            size = Some(unit.inner.encoding().address_size.into());
        }
        Ok(DwarfType { name, size, kind })
    }

    /// The type in a unit of its own, which must not be such a stub again.
    fn read_signed(&mut self, entry: u32) -> Result<DwarfType, LookupError> {
        let mut walk = self.program.units.walk(entry)?;
        self.next(&mut walk)?;
        let (die, unit) = (walk.die.clone(), walk.unit);
        let name = self.program.units.text(unit, &die, gimli::DW_AT_name);
        let kind = self.kind(&die, &mut walk)?;
        let size = die.unsigned(gimli::DW_AT_byte_size);
        Ok(DwarfType { name: name.map(|name| name.to_string_lossy().into_owned()), size, kind })
    }

    fn next(&mut self, walk: &mut Walk<'_, 'a>) -> Result<Option<isize>, LookupError> {
        self.types.entries_read += 1;
        if self.types.entries_read > ENTRIES_MAX {
            return Err(LookupError::Damaged { what: format!("more than {ENTRIES_MAX} entries of types") });
        }
        Ok(walk.next()?)
    }

    /// The next entry directly below the first one.
    fn next_child(&mut self, walk: &mut Walk<'_, 'a>) -> Result<bool, LookupError> {
        if !walk.die.has_children && walk.depth() == 0 {
            return Ok(false);
        }
        if walk.depth() > 0 {
            walk.skip_children(1);
        }
        let before = walk.bytes_read();
        let found = self.next(walk)?.is_some();
        // Entries that were skipped on the way count too.
        self.types.entries_read += (walk.bytes_read() - before) / SKIPPED_ENTRY_BYTES;
        Ok(found)
    }

    fn kind(&mut self, die: &Die<'a>, walk: &mut Walk<'p, 'a>) -> Result<TypeKind, LookupError> {
        let unit = walk.unit;
        Ok(match die.tag {
            gimli::DW_TAG_base_type => TypeKind::Base(Base { encoding: encoding(die) }),
            gimli::DW_TAG_unspecified_type => TypeKind::Void,
            gimli::DW_TAG_pointer_type => TypeKind::Pointer(self.target(unit, die)),
            gimli::DW_TAG_reference_type => TypeKind::Reference { target: self.target(unit, die), is_rvalue: false },
            gimli::DW_TAG_rvalue_reference_type => {
                TypeKind::Reference { target: self.target(unit, die), is_rvalue: true }
            }
            gimli::DW_TAG_ptr_to_member_type => TypeKind::MemberPointer(self.target(unit, die)),
            gimli::DW_TAG_typedef | gimli::DW_TAG_template_alias => TypeKind::Typedef(self.target(unit, die)),
            gimli::DW_TAG_const_type => TypeKind::Qualified(Qualifier::Const, self.target(unit, die)),
            gimli::DW_TAG_volatile_type => TypeKind::Qualified(Qualifier::Volatile, self.target(unit, die)),
            gimli::DW_TAG_restrict_type => TypeKind::Qualified(Qualifier::Restrict, self.target(unit, die)),
            gimli::DW_TAG_atomic_type => TypeKind::Qualified(Qualifier::Atomic, self.target(unit, die)),
            gimli::DW_TAG_structure_type => self.record(RecordKind::Struct, die, walk)?,
            gimli::DW_TAG_class_type | gimli::DW_TAG_interface_type => self.record(RecordKind::Class, die, walk)?,
            gimli::DW_TAG_union_type => self.record(RecordKind::Union, die, walk)?,
            gimli::DW_TAG_enumeration_type => self.enumeration(die, walk)?,
            gimli::DW_TAG_array_type => self.array(die, walk)?,
            gimli::DW_TAG_string_type => TypeKind::Text { length: self.text_length(unit, die) },
            gimli::DW_TAG_subroutine_type => self.code(die, walk)?,
            other => TypeKind::Other(other.static_string().unwrap_or("unknown").to_string()),
        })
    }

    fn target(&mut self, unit: &Unit<'a>, die: &Die<'a>) -> TypeId {
        let Some(entry) = self.program.units.follow(unit, die, gimli::DW_AT_type) else {
            return if die.has(gimli::DW_AT_type) { elsewhere(self.types) } else { void(self.types) };
        };
        let before = self.types.list.len();
        let id = place_for(self.types, entry);
        if id.0 as usize == before {
            self.to_read.push((entry, id));
        }
        id
    }

    fn record(&mut self, kind: RecordKind, die: &Die<'a>, walk: &mut Walk<'p, 'a>) -> Result<TypeKind, LookupError> {
        let mut members = Vec::new();
        let mut has_destructor = false;
        while self.next_child(walk)? {
            has_destructor |= self.is_written_destructor(walk);
            let is_base = walk.die.tag == gimli::DW_TAG_inheritance;
            // Static members are variables of their own.
            let is_member = walk.die.tag == gimli::DW_TAG_member
                && !walk.die.flag(gimli::DW_AT_external)
                && !walk.die.flag(gimli::DW_AT_declaration);
            if is_base || is_member {
                let child = walk.die.clone();
                members.push(self.member(walk.unit, &child, is_base));
            }
        }
        let passed_by_address = match die.attr(gimli::DW_AT_calling_convention) {
            Some(AttributeValue::CallingConvention(gimli::DW_CC_pass_by_reference)) => Some(true),
            Some(AttributeValue::CallingConvention(gimli::DW_CC_pass_by_value)) => Some(false),
            // GCC does not say; what it takes to destroy an object is the usual reason.
            _ if has_destructor => Some(true),
            _ => None,
        };
        let is_declaration = die.flag(gimli::DW_AT_declaration);
        Ok(TypeKind::Record { kind, members, is_declaration, passed_by_address })
    }

    /// True if a walk stands at a destructor that is more than the compiler's own.
    fn is_written_destructor(&self, walk: &Walk<'p, 'a>) -> bool {
        let die = &walk.die;
        let is_written = !die.flag(gimli::DW_AT_artificial) && !die.has(gimli::DW_AT_defaulted);
        let name = || self.program.units.text(walk.unit, die, gimli::DW_AT_name);
        die.tag == gimli::DW_TAG_subprogram && is_written && name().is_some_and(|name| name.starts_with(b"~"))
    }

    fn member(&mut self, unit: &Unit<'a>, die: &Die<'a>, is_base: bool) -> DwarfMember {
        let name = self.program.units.text(unit, die, gimli::DW_AT_name);
        let start = match die.attr(gimli::DW_AT_data_member_location) {
            Some(AttributeValue::Exprloc(expression)) => {
                match self.reader(unit).value(expression, Some(Expression::Object)) {
                    Some(address) => constant_offset(address),
                    None => MemberOffset::Bytes(0),
                }
            }
            Some(value) => MemberOffset::Bytes(value.udata_value().unwrap_or(0)),
            None => MemberOffset::Bytes(0),
        };
        let bits = bits(die, &start);
        let offset = bits.map_or(start, |bits| MemberOffset::Bytes(bits.offset_bits / 8));
        DwarfMember {
            name: name.map(|name| name.to_string_lossy().into_owned()),
            type_id: self.target(unit, die),
            offset,
            bits,
            is_base,
            is_artificial: die.flag(gimli::DW_AT_artificial),
        }
    }

    fn enumeration(&mut self, die: &Die<'a>, walk: &mut Walk<'p, 'a>) -> Result<TypeKind, LookupError> {
        let underlying = die.has(gimli::DW_AT_type).then(|| self.target(walk.unit, die));
        let mut enumerators = Vec::new();
        while self.next_child(walk)? {
            let name = self.program.units.text(walk.unit, &walk.die, gimli::DW_AT_name);
            let value = number(&walk.die, gimli::DW_AT_const_value);
            if let (gimli::DW_TAG_enumerator, Some(name), Some(value)) = (walk.die.tag, name, value) {
                enumerators.push(Enumerator { name: name.to_string_lossy().into_owned(), value });
            }
        }
        Ok(TypeKind::Enumeration { underlying, enumerators })
    }

    fn array(&mut self, die: &Die<'a>, walk: &mut Walk<'p, 'a>) -> Result<TypeKind, LookupError> {
        let unit = walk.unit;
        let mut dimensions = Vec::new();
        while self.next_child(walk)? {
            let child = walk.die.clone();
            if matches!(child.tag, gimli::DW_TAG_subrange_type | gimli::DW_TAG_generic_subrange) {
                dimensions.push(self.dimension(unit, &child));
            }
        }
        let ordering = die.attr(gimli::DW_AT_ordering);
        let is_column_major = match ordering {
            Some(AttributeValue::Ordering(ordering)) => ordering == gimli::DW_ORD_col_major,
            _ => is_fortran(unit),
        };
        let computed = |reader: &Self, name| reader.computed(unit, die, name);
        let dynamic = Dynamic {
            data: computed(self, gimli::DW_AT_data_location),
            allocated: computed(self, gimli::DW_AT_allocated),
            associated: computed(self, gimli::DW_AT_associated),
        };
        let is_dynamic = dynamic.data.is_some() || dynamic.allocated.is_some() || dynamic.associated.is_some();
        Ok(TypeKind::Array {
            element: self.target(unit, die),
            dimensions,
            is_column_major,
            is_vector: die.flag(gimli::DW_AT_GNU_vector),
            dynamic: is_dynamic.then(|| Box::new(dynamic)),
        })
    }

    fn dimension(&self, unit: &Unit<'a>, die: &Die<'a>) -> Dimension {
        let bound = |name| self.bound(unit, die, name);
        let lower = match bound(gimli::DW_AT_lower_bound) {
            Bound::Unknown => Bound::Constant(i64::from(is_fortran(unit))),
            lower => lower,
        };
        let upper = bound(gimli::DW_AT_upper_bound);
        let count = match (bound(gimli::DW_AT_count), lower.constant(), upper.constant()) {
            (Bound::Unknown, Some(lower), Some(upper)) => {
                let count = upper.checked_sub(lower).and_then(|last| last.checked_add(1));
                count.map_or(Bound::Unknown, |count| Bound::Constant(count.max(0)))
            }
            (count, _, _) => count,
        };
        Dimension { lower, count, upper, stride: bound(gimli::DW_AT_byte_stride) }
    }

    fn text_length(&self, unit: &Unit<'a>, die: &Die<'a>) -> Bound {
        match die.unsigned(gimli::DW_AT_byte_size).and_then(|size| i64::try_from(size).ok()) {
            Some(size) => Bound::Constant(size),
            None => self.bound(unit, die, gimli::DW_AT_string_length),
        }
    }

    fn bound(&self, unit: &Unit<'a>, die: &Die<'a>, name: DwAt) -> Bound {
        match die.attr(name) {
            None => Bound::Unknown,
            Some(AttributeValue::Exprloc(expression)) => {
                let value = self.reader(unit).value(expression, None);
                value.map_or(Bound::Unknown, |value| match value {
                    Expression::Constant(value) => Bound::Constant(value.cast_signed()),
                    value => Bound::Computed(value),
                })
            }
            Some(value) => match (self.program.units.reference(unit, value), number(die, name)) {
                (Some(variable), _) => Bound::Variable(EntryId(variable)),
                (None, Some(number)) => Bound::Constant(number),
                (None, None) => Bound::Unknown,
            },
        }
    }

    fn computed(&self, unit: &Unit<'a>, die: &Die<'a>, name: DwAt) -> Option<Expression> {
        self.reader(unit).value(die.attr(name)?.exprloc_value()?, None)
    }

    fn code(&mut self, die: &Die<'a>, walk: &mut Walk<'p, 'a>) -> Result<TypeKind, LookupError> {
        let result = self.target(walk.unit, die);
        let (mut parameters, mut is_variadic) = (Vec::new(), false);
        while self.next_child(walk)? {
            match walk.die.tag {
                gimli::DW_TAG_formal_parameter => {
                    let child = walk.die.clone();
                    parameters.push(self.target(walk.unit, &child));
                }
                gimli::DW_TAG_unspecified_parameters => is_variadic = true,
                _ => {}
            }
        }
        Ok(TypeKind::Function { result, parameters, is_variadic })
    }

    fn reader<'u>(&self, unit: &'u Unit<'a>) -> Reader<'p, 'u, 'a> {
        Reader { units: &self.program.units, unit, function_base: &Expression::FunctionBase }
    }
}

/// `Object + constant` as the constant.
fn constant_offset(address: Expression) -> MemberOffset {
    use super::expression::BinaryOperator::Add;
    match address {
        Expression::Object => MemberOffset::Bytes(0),
        Expression::Binary(Add, left, right) => match (*left, *right) {
            (Expression::Object, Expression::Constant(offset)) => MemberOffset::Bytes(offset),
            (left, right) => MemberOffset::Address(Expression::Binary(Add, Box::new(left), Box::new(right))),
        },
        address => MemberOffset::Address(address),
    }
}

/// A member's bits: counted from the record's first bit, or (until DWARF 3) from the highest bit of its storage.
fn bits(die: &Die<'_>, start: &MemberOffset) -> Option<BitField> {
    let size_bits = die.unsigned(gimli::DW_AT_bit_size)?;
    let MemberOffset::Bytes(start) = start else { return None };
    let start_bits = start.checked_mul(8)?;
    if let Some(offset) = die.unsigned(gimli::DW_AT_data_bit_offset) {
        return Some(BitField { offset_bits: start_bits.checked_add(offset)?, size_bits });
    }
    let Some(from_top) = die.attr(gimli::DW_AT_bit_offset).and_then(|value| value.sdata_value()) else {
        return Some(BitField { offset_bits: start_bits, size_bits });
    };
    let storage_bits = die.unsigned(gimli::DW_AT_byte_size)?.checked_mul(8)?;
    let end = start_bits.checked_add(storage_bits)?.checked_sub(size_bits)?;
    Some(BitField { offset_bits: end.checked_add_signed(from_top.checked_neg()?)?, size_bits })
}

/// A constant attribute with its sign: forms without one are as long as the number, so their top bit is none.
fn number(die: &Die<'_>, name: DwAt) -> Option<i64> {
    match die.attr(name)? {
        AttributeValue::Sdata(value) => Some(value),
        value => value.udata_value().map(u64::cast_signed),
    }
}

fn encoding(die: &Die<'_>) -> Encoding {
    match die.attr(gimli::DW_AT_encoding) {
        Some(AttributeValue::Encoding(encoding)) => match encoding {
            gimli::DW_ATE_signed => Encoding::Signed,
            gimli::DW_ATE_unsigned | gimli::DW_ATE_address => Encoding::Unsigned,
            gimli::DW_ATE_signed_char => Encoding::SignedCharacter,
            gimli::DW_ATE_unsigned_char => Encoding::UnsignedCharacter,
            gimli::DW_ATE_UTF | gimli::DW_ATE_UCS | gimli::DW_ATE_ASCII => Encoding::Unicode,
            gimli::DW_ATE_boolean => Encoding::Boolean,
            gimli::DW_ATE_float => Encoding::Float,
            gimli::DW_ATE_complex_float => Encoding::Complex,
            other => Encoding::Other(other.0),
        },
        _ => Encoding::Other(0),
    }
}
