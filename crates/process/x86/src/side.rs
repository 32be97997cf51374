//! The sides of a test by which a loop is left, and how they are read while the loop runs.
//!
//! One is a whole number in a register, in memory or in an element of an array, or a sum of words with a fraction. Registers are those
//! that a probe has noted; memory is read from outside of the process.
//!
//! Next: `exit_tests`, which finds what a side is made of.

use crate::bound::is_no_end;
use crate::linear::{Linear, ReadablePlace};
use iced_x86::{ConditionCode, Instruction, Mnemonic};

/// Reads so many bytes of the process at an address, as a number.
pub type LoadWord<'a> = &'a dyn Fn(u64, u32) -> Option<u64>;

/// A value that is compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Side {
    /// A whole number: of a place, or one of the code.
    Whole { value: Linear, bits: u32, is_signed: bool },
    /// A whole number of an array.
    Element { element: Element, is_signed: bool },
    /// A sum of numbers with a fraction.
    Real(Vec<Term>),
}

/// A word of memory with a fraction, which is added or subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) word: Word,
    pub(crate) is_subtracted: bool,
}

/// A word of memory that is read at each look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Named(ReadablePlace),
    Element(Element),
}

/// Memory at an address that is the sum of what two places hold: an element of an array, as of a vector of C++.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// The pointer.
    pub(crate) base: Linear,
    /// The index, and the bytes that one of it counts.
    pub(crate) index: Option<(Linear, u32)>,
    pub(crate) offset: i64,
    pub(crate) bytes: u32,
}

/// The relation of the left side to the right one for as long as the loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoesOn {
    /// Less, or not above.
    Below,
    /// Greater, or not below.
    Above,
    /// Not equal.
    Apart,
    /// Equal.
    Equal,
}

/// Both sides of a test in one pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sides {
    /// The one that is compared.
    pub left: f64,
    /// The one that it is compared with.
    pub right: f64,
    /// The loop goes on while they are so.
    pub goes_on: GoesOn,
    /// They are whole numbers.
    pub is_whole: bool,
    /// The address of the comparison in a called function; 0: it is the loop's own.
    pub compared_at: u64,
}

impl Word {
    pub(crate) fn places(&self) -> Vec<ReadablePlace> {
        match self {
            Word::Named(place) => vec![*place],
            Word::Element(element) => element.places(),
        }
    }

    pub(crate) fn bytes(&self) -> u32 {
        match self {
            Word::Named(place) => bytes_of(*place),
            Word::Element(element) => element.bytes,
        }
    }

    pub(crate) fn value(&self, register: &dyn Fn(u8) -> Option<u64>, load: LoadWord) -> Option<u64> {
        match self {
            Word::Named(place) => word_at(*place, register, load),
            Word::Element(element) => element.value(register, load),
        }
    }
}

impl Element {
    pub(crate) fn places(&self) -> Vec<ReadablePlace> {
        let index = self.index.and_then(|(index, _)| index.place);
        self.base.place.into_iter().chain(index).collect()
    }

    pub(crate) fn value(&self, register: &dyn Fn(u8) -> Option<u64>, load: LoadWord) -> Option<u64> {
        let held = |value: Linear| number_at(value, register, load);
        let further = match self.index {
            Some((index, scale)) => held(index)?.wrapping_mul(scale.into()),
            None => 0,
        };
        load(held(self.base)?.wrapping_add(further).wrapping_add_signed(self.offset), self.bytes)
    }
}

impl Side {
    pub(crate) fn whole(value: Linear, bits: u32, condition: ConditionCode) -> Side {
        Side::Whole { value, bits, is_signed: is_signed(condition) }
    }

    pub(crate) fn is_no_end(&self) -> bool {
        matches!(self, Side::Whole { value, .. } if is_no_end(value, 1))
    }

    pub(crate) fn places(&self) -> Vec<ReadablePlace> {
        match self {
            Side::Whole { value, .. } => value.place.into_iter().collect(),
            Side::Element { element, .. } => element.places(),
            Side::Real(terms) => terms.iter().flat_map(|term| term.word.places()).collect(),
        }
    }

    pub(crate) fn value(&self, register: &dyn Fn(u8) -> Option<u64>, load: LoadWord) -> Option<f64> {
        match self {
            Side::Whole { value, bits, is_signed } => {
                Some(whole_number(number_at(*value, register, load)?, *bits, *is_signed))
            }
            Side::Element { element, is_signed } => {
                Some(whole_number(element.value(register, load)?, 8 * element.bytes, *is_signed))
            }
            Side::Real(terms) => {
                let number = |term: &Term| {
                    let word = term.word.value(register, load)?;
                    let number = real(word, term.word.bytes() != 4);
                    Some(if term.is_subtracted { -number } else { number })
                };
                terms.iter().map(number).sum()
            }
        }
    }
}

fn whole_number(number: u64, bits: u32, is_signed: bool) -> f64 {
    match (bits, is_signed) {
        (32, true) => f64::from(number as i32),
        (32, false) => f64::from(number as u32),
        (_, true) => number as i64 as f64,
        (_, false) => number as f64,
    }
}

/// The number with a fraction that these bits are.
pub(crate) fn real(bits: u64, is_double: bool) -> f64 {
    if is_double { f64::from_bits(bits) } else { f32::from_bits(bits as u32).into() }
}

/// The value that is made of a place's word, or of none.
pub(crate) fn number_at(value: Linear, register: &dyn Fn(u8) -> Option<u64>, load: LoadWord) -> Option<u64> {
    let held = value.place.map_or(Some(0), |place| word_at(place, register, load))?;
    Some(value.value(held))
}

/// The word in a register or in memory.
fn word_at(place: ReadablePlace, register: &dyn Fn(u8) -> Option<u64>, load: LoadWord) -> Option<u64> {
    match place {
        ReadablePlace::Register(number) => register(number),
        ReadablePlace::Frame { register: base, offset, bytes } => {
            load(register(base)?.wrapping_add_signed(offset), bytes)
        }
        ReadablePlace::Behind { register: base, slot, offset, bytes } => {
            let pointer = load(register(base)?.wrapping_add_signed(slot), 8)?;
            load(pointer.wrapping_add_signed(offset), bytes)
        }
        ReadablePlace::Fixed { address, bytes } => load(address.0, bytes),
    }
}

/// Bytes of a place in memory; 8 of a register.
fn bytes_of(place: ReadablePlace) -> u32 {
    match place {
        ReadablePlace::Register(_) => 8,
        ReadablePlace::Frame { bytes, .. }
        | ReadablePlace::Behind { bytes, .. }
        | ReadablePlace::Fixed { bytes, .. } => bytes,
    }
}

/// True if a condition compares numbers with a sign.
pub(crate) fn is_signed(condition: ConditionCode) -> bool {
    use ConditionCode::{a, ae, b, be};
    !matches!(condition, a | ae | b | be)
}

/// The relation that a condition stands for, if it is one of two numbers.
pub(crate) fn goes_on(condition: ConditionCode) -> Option<GoesOn> {
    use ConditionCode::{a, ae, b, be, e, g, ge, l, le, ne, ns, s};
    Some(match condition {
        l | le | b | be | s => GoesOn::Below,
        g | ge | a | ae | ns => GoesOn::Above,
        ne => GoesOn::Apart,
        e => GoesOn::Equal,
        _ => return None,
    })
}

/// True of a comparison of numbers with a fraction.
pub(crate) fn is_real_comparison(one: &Instruction) -> bool {
    use Mnemonic::{Comisd, Comiss, Ucomisd, Ucomiss, Vcomisd, Vcomiss, Vucomisd, Vucomiss};
    matches!(one.mnemonic(), Comisd | Comiss | Ucomisd | Ucomiss | Vcomisd | Vcomiss | Vucomisd | Vucomiss)
}
