//! Where arguments and results are by the calling convention: the System V ABI for x86-64, its section 3.2.3.
//!
//! The only file of this module that knows a processor architecture; others have no convention here.
//!
//! Next: `function`, which asks.

use super::expression::{Expression, ValueLocation, ValuePiece};
use super::types::{Encoding, MemberOffset, RecordKind, TypeId, TypeKind, Types};
use crate::Machine;

/// Integer registers for arguments, by DWARF number: rdi, rsi, rdx, rcx, r8, r9.
const INTEGER_ARGUMENTS: [u16; 6] = [5, 4, 1, 2, 8, 9];
/// Integer registers for results: rax, rdx.
const INTEGER_RESULTS: [u16; 2] = [0, 1];
/// Vector registers for arguments: xmm0 to xmm7; the first two are for results.
const VECTOR_ARGUMENTS: [u16; 8] = [17, 18, 19, 20, 21, 22, 23, 24];
/// x87 registers for results: st0, st1.
const X87_RESULTS: [u16; 2] = [33, 34];
/// The stack pointer, rsp.
pub(crate) const STACK_POINTER: u16 = 7;
/// Bytes of a stack slot, and of an integer register.
const WORD_BYTES: u64 = 8;
/// Larger ones are passed in memory.
const IN_REGISTERS_BYTES_MAX: u64 = 16;
/// Members within members that are looked at; a record of 16 bytes has no more.
const NESTING_MAX: usize = 32;
/// Members looked at for one argument.
const MEMBERS_MAX: usize = 256;

/// Where a function's arguments are at its first instruction, and its result at its last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// One for each argument; `None` if not known.
    pub arguments: Vec<Option<ValueLocation>>,
    /// `None` for no result, or if not known.
    pub result: Option<ValueLocation>,
}

/// An argument whose place is asked for.
pub(crate) struct Argument {
    pub type_id: TypeId,
    /// The function gets its address, whatever its type (Fortran).
    pub by_address: bool,
}

/// How eight bytes are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Padding.
    None,
    Vector,
    Integer,
    /// The upper half of what the class before it says.
    Upper,
    X87,
    Memory,
}

/// Applies the convention of a machine.
pub(crate) fn signature(
    machine: Machine,
    types: &Types,
    arguments: impl Iterator<Item = Argument>,
    result: TypeId,
) -> Signature {
    if machine != Machine::X86_64 {
        return Signature { arguments: arguments.map(|_| None).collect(), result: None };
    }
    let mut state = State::default();
    let result = state.result(types, result);
    // A parameter that can't be classified may take any registers: nothing is known about those behind it.
    let mut is_known = true;
    let arguments = arguments.map(|argument| {
        let place = state.argument(types, &argument).filter(|_| is_known);
        is_known &= place.is_some();
        place
    });
    Signature { arguments: arguments.collect(), result }
}

/// The registers that have been given away.
#[derive(Default)]
struct State {
    integers: usize,
    vectors: usize,
    stack_bytes: u64,
}

impl State {
    fn argument(&mut self, types: &Types, argument: &Argument) -> Option<ValueLocation> {
        if argument.by_address || is_passed_by_address(types, argument.type_id) {
            return Some(match self.integer() {
                Some(register) => ValueLocation::Memory(Expression::Register(register)),
                None => {
                    let ValueLocation::Memory(slot) = self.stack(WORD_BYTES, WORD_BYTES) else { return None };
                    ValueLocation::Memory(Expression::Load { addr: Box::new(slot), bytes: WORD_BYTES as u8 })
                }
            });
        }
        let size = types.size_of(argument.type_id)?;
        let align = alignment(types, argument.type_id);
        let Some(classes) = classes(types, argument.type_id)? else { return Some(self.stack(size, align)) };
        let wanted = |class| classes.iter().filter(|found| **found == class).count();
        let fits = self.integers + wanted(Class::Integer) <= INTEGER_ARGUMENTS.len()
            && self.vectors + wanted(Class::Vector) <= VECTOR_ARGUMENTS.len();
        if !fits || classes.contains(&Class::X87) {
            return Some(self.stack(size, align));
        }
        let registers = classes.iter().filter_map(|class| match class {
            Class::Integer => self.integer(),
            Class::Vector => self.vector(),
            _ => None,
        });
        let registers: Vec<u16> = registers.collect();
        Some(in_registers(&classes, &registers, size))
    }

    fn result(&mut self, types: &Types, id: TypeId) -> Option<ValueLocation> {
        let stripped = types.stripped(id);
        if matches!(types.get(stripped)?.kind, TypeKind::Void) {
            return None;
        }
        if is_passed_by_address(types, id) {
            return Some(self.result_in_memory());
        }
        let size = types.size_of(id)?;
        let Some(classes) = classes(types, id)? else {
            return Some(match types.get(stripped)?.kind {
                TypeKind::Base(base) if base.encoding == Encoding::Complex => x87_pair(),
                _ => self.result_in_memory(),
            });
        };
        let (mut integers, mut vectors) = (INTEGER_RESULTS.iter(), VECTOR_ARGUMENTS.iter());
        let registers = classes.iter().filter_map(|class| match class {
            Class::Integer => integers.next(),
            Class::Vector => vectors.next(),
            Class::X87 => X87_RESULTS.first(),
            _ => None,
        });
        let registers: Vec<u16> = registers.copied().collect();
        Some(in_registers(&classes, &registers, size))
    }

    /// The caller passes the address first; the function returns it.
    fn result_in_memory(&mut self) -> ValueLocation {
        self.integers += 1;
        ValueLocation::Memory(Expression::Register(INTEGER_RESULTS[0]))
    }

    fn integer(&mut self) -> Option<u16> {
        let register = INTEGER_ARGUMENTS.get(self.integers).copied();
        self.integers += usize::from(register.is_some());
        register
    }

    fn vector(&mut self) -> Option<u16> {
        let register = VECTOR_ARGUMENTS.get(self.vectors).copied();
        self.vectors += usize::from(register.is_some());
        register
    }

    /// The frame's base is where the stack pointer was before the call: the first argument in memory lies there.
    fn stack(&mut self, size: u64, align: u64) -> ValueLocation {
        let align = align.max(WORD_BYTES);
        let offset = self.stack_bytes.checked_next_multiple_of(align).unwrap_or(self.stack_bytes);
        let padded = size.checked_next_multiple_of(WORD_BYTES).unwrap_or(size);
        self.stack_bytes = offset.saturating_add(padded);
        ValueLocation::Memory(Expression::FrameBase.plus(offset))
    }
}

fn in_registers(classes: &[Class], registers: &[u16], size: u64) -> ValueLocation {
    let is_split = classes.iter().filter(|class| **class != Class::Upper && **class != Class::None).count() > 1;
    match registers {
        [] => ValueLocation::Gone,
        [register] if !is_split && classes[0] != Class::None => ValueLocation::Register(*register),
        _ => {
            let mut registers = registers.iter();
            let mut left = size * 8;
            let pieces = classes.iter().map(|class| {
                let size_bits = left.min(WORD_BYTES * 8);
                left -= size_bits;
                let register = if *class == Class::None { None } else { registers.next() };
                let place = register.map_or(ValueLocation::Gone, |register| ValueLocation::Register(*register));
                ValuePiece { place, size_bits, offset_bits: 0 }
            });
            ValueLocation::Pieces(pieces.collect())
        }
    }
}

/// Both halves of a complex number of x87's format.
fn x87_pair() -> ValueLocation {
    let piece = |register| ValuePiece { place: ValueLocation::Register(register), size_bits: 128, offset_bits: 0 };
    ValueLocation::Pieces(X87_RESULTS.map(piece).to_vec())
}

/// Classes that code must run to copy or destroy: so the compiler says, or they have a destructor, virtual functions,
/// or a member that is such a class.
fn is_passed_by_address(types: &Types, id: TypeId) -> bool {
    let mut to_look_at = vec![id];
    for _ in 0..MEMBERS_MAX {
        let Some(id) = to_look_at.pop() else { return false };
        match types.get(types.stripped(id)).map(|found| &found.kind) {
            Some(TypeKind::Record { passed_by_address: Some(true), .. }) => return true,
            Some(TypeKind::Record { passed_by_address: None, members, .. }) => {
                if members.iter().any(|member| member.name.as_ref().is_some_and(|name| name.starts_with("_vptr"))) {
                    return true;
                }
                to_look_at.extend(members.iter().map(|member| member.type_id));
            }
            Some(TypeKind::Array { element, .. }) => to_look_at.push(*element),
            _ => {}
        }
    }
    false
}

/// The class of each eight bytes; `Some(None)` for what is passed in memory, `None` if not known.
fn classes(types: &Types, id: TypeId) -> Option<Option<Vec<Class>>> {
    let size = types.size_of(id)?;
    if size > IN_REGISTERS_BYTES_MAX {
        // Wide vectors go into registers that are not told apart here.
        let is_vector = matches!(types.get(types.stripped(id))?.kind, TypeKind::Array { is_vector: true, .. });
        return if is_vector { None } else { Some(None) };
    }
    let mut classes = [Class::None; 2];
    let mut members_left = MEMBERS_MAX;
    classify(types, id, 0, &mut classes, 0, &mut members_left)?;
    if classes.contains(&Class::Memory) {
        return Some(None);
    }
    let count = usize::try_from(size.div_ceil(WORD_BYTES)).ok()?;
    Some(Some(classes[..count].to_vec()))
}

/// Merges the class of what lies at `offset` into those of the whole; `None` if it can't be told.
fn classify(
    types: &Types,
    id: TypeId,
    offset: u64,
    classes: &mut [Class; 2],
    nesting: usize,
    members_left: &mut usize,
) -> Option<()> {
    *members_left = members_left.checked_sub(1).filter(|_| nesting < NESTING_MAX)?;
    let id = types.stripped(id);
    let size = types.size_of(id)?;
    if size > 0 && !offset.is_multiple_of(alignment(types, id)) {
        classes[0] = Class::Memory;
        return Some(());
    }
    let found = types.get(id)?;
    match &found.kind {
        TypeKind::Base(base) => base_classes(found.name.as_deref(), base.encoding, size, offset, classes)?,
        TypeKind::Pointer(_) | TypeKind::Reference { .. } | TypeKind::Enumeration { .. } => {
            merge(classes, offset, Class::Integer)?;
        }
        TypeKind::MemberPointer(_) => {
            merge(classes, offset, Class::Integer)?;
            if size > WORD_BYTES {
                merge(classes, offset + WORD_BYTES, Class::Integer)?;
            }
        }
        TypeKind::Record { kind, members, is_declaration: false, .. } => {
            for member in members {
                let MemberOffset::Bytes(inside) = member.offset else { return None };
                let inside = if *kind == RecordKind::Union { 0 } else { inside };
                let at = offset.checked_add(inside)?;
                if member.bits.is_some() {
                    merge(classes, at, Class::Integer)?;
                } else {
                    classify(types, member.type_id, at, classes, nesting + 1, members_left)?;
                }
            }
        }
        TypeKind::Array { is_vector: true, .. } => {
            merge(classes, offset, Class::Vector)?;
            if size > WORD_BYTES {
                merge(classes, offset + WORD_BYTES, Class::Upper)?;
            }
        }
        TypeKind::Array { element, .. } => {
            let step = types.size_of(*element).filter(|step| *step > 0)?;
            for at in (0..size).step_by(usize::try_from(step).ok()?) {
                classify(types, *element, offset.checked_add(at)?, classes, nesting + 1, members_left)?;
            }
        }
        _ => return None,
    }
    Some(())
}

fn base_classes(
    name: Option<&str>,
    encoding: Encoding,
    size: u64,
    offset: u64,
    classes: &mut [Class; 2],
) -> Option<()> {
    let is_quad = name.is_some_and(|name| name.contains("128") || name.contains("real(kind=16)"));
    let (first, second) = match (encoding, size) {
        (Encoding::Float, 0..=8) => (Class::Vector, Class::None),
        (Encoding::Float, 16) if is_quad => (Class::Vector, Class::Upper),
        (Encoding::Float, _) => (Class::X87, Class::Upper),
        (Encoding::Complex, 0..=8) => (Class::Vector, Class::None),
        (Encoding::Complex, 16) => (Class::Vector, Class::Vector),
        (Encoding::Complex, _) => (Class::Memory, Class::None),
        (_, 0..=8) => (Class::Integer, Class::None),
        (_, 16) => (Class::Integer, Class::Integer),
        _ => return None,
    };
    merge(classes, offset, first)?;
    if second != Class::None {
        merge(classes, offset.checked_add(WORD_BYTES)?, second)?;
    }
    Some(())
}

fn merge(classes: &mut [Class; 2], offset: u64, class: Class) -> Option<()> {
    let found = classes.get_mut(usize::try_from(offset / WORD_BYTES).ok()?)?;
    *found = match (*found, class) {
        (Class::X87, other) | (other, Class::X87) if other != Class::None && other != Class::X87 => Class::Memory,
        (a, b) => a.max(b),
    };
    Some(())
}

/// Alignment in bytes by the ABI; 1 where it does not matter or is not known.
fn alignment(types: &Types, id: TypeId) -> u64 {
    let mut id = types.stripped(id);
    for _ in 0..NESTING_MAX {
        let Some(found) = types.get(id) else { return 1 };
        match &found.kind {
            TypeKind::Array { element, is_vector: false, .. } => id = types.stripped(*element),
            // A member's own alignment is checked where it lies; only 16-byte ones align the whole on the stack.
            TypeKind::Record { members, .. } => {
                let widest = members.iter().filter_map(|member| {
                    let size = types.size_of(member.type_id)?;
                    let is_base = matches!(types.get(types.stripped(member.type_id))?.kind, TypeKind::Base(_));
                    (is_base && member.bits.is_none()).then_some(size)
                });
                return if widest.max() == Some(16) { 16 } else { 1 };
            }
            TypeKind::Base(base) if base.encoding == Encoding::Complex => return (found.size.unwrap_or(2) / 2).max(1),
            _ => return found.size.filter(|size| size.is_power_of_two()).unwrap_or(1),
        }
    }
    1
}
