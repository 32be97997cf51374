//! Names to entries: which functions, variables, types and enumerators a program has, and where functions are inlined.
//!
//! One pass over all entries, made at the first question by name, and compact: names are kept as hashes and read again
//! from the sections when they match. [`Index::to_cache`] keeps it for the next time.
//!
//! Next: `names` for what is done with a match.

use super::units::{Slice, Unit, Units, Wrapped};
use crate::{Error, cache};
use gimli::{Attribute, AttributeValue, DwAt};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use twox_hash::XxHash3_128;

/// Raise it with every change to what [`Index`] or its parts hold or mean.
const VERSION: u32 = 2;
/// Attributes may be this many times the section's bytes, because some take no byte at all.
const ATTRIBUTES_TO_BYTES_MAX: usize = 4;
/// References from one instance of a function or variable to its declaration that are followed.
const ORIGINS_MAX: usize = 8;

/// Where each name of a program is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// Length and hash of `.debug_info` and `.debug_types`, to tell that it belongs to these sections.
    info: (u64, u64),
    /// By ascending hash.
    names: Vec<Name>,
    /// By ascending first entry.
    scopes: Vec<Scope>,
    /// (the function, its copy) by the function's number.
    inlined: Vec<(u32, u32)>,
    /// Units that could not be read, each with the reason.
    pub problems: Vec<String>,
}

/// One name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Name {
    pub hash: u32,
    pub entry: u32,
    pub kind: Kind,
}

/// The kind of thing that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    Function,
    Variable,
    Type,
    Enumerator,
}

/// An entry in which others lie, and whose name is part of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scope {
    pub entry: u32,
    /// The first number behind all that lies in it.
    pub end: u32,
    /// Position of the scope around it.
    pub parent: Option<u32>,
}

/// Puts the header before a payload. Public for fuzzing only: with it, inputs get past the checksum.
#[doc(hidden)]
pub fn seal_index(payload: &[u8]) -> Vec<u8> {
    cache::seal_as(cache::INDEX_MAGIC, VERSION, payload)
}

impl Index {
    /// The index as bytes for a cache; see [`Index::from_cache`].
    pub fn to_cache(&self) -> Vec<u8> {
        // Serialising plain data into memory has no way to fail; were it to, the header alone is refused on reading.
        cache::seal_as(cache::INDEX_MAGIC, VERSION, &postcard::to_stdvec(self).unwrap_or_default())
    }

    /// An index from the bytes that [`Index::to_cache`] made.
    ///
    /// # Errors
    /// [`Error::BadCache`] for damaged bytes and those of another version.
    pub fn from_cache(bytes: &[u8]) -> Result<Index, Error> {
        let bad = |what: String| Error::BadCache { what };
        let payload = cache::unseal_as(cache::INDEX_MAGIC, VERSION, bytes).map_err(|fault| bad(fault.to_string()))?;
        let (index, rest) = postcard::take_from_bytes::<Index>(payload).map_err(|error| bad(error.to_string()))?;
        let in_order = index.names.is_sorted()
            && index.inlined.is_sorted()
            && index.scopes.is_sorted_by(|a, b| a.entry < b.entry)
            && index.scopes.iter().zip(0..).all(|(scope, at)| scope.parent.is_none_or(|parent| parent < at));
        if rest.is_empty() && in_order { Ok(index) } else { Err(bad("its lists are not in order".to_string())) }
    }

    pub(crate) fn of(units: &Units<'_>) -> Index {
        let mut scan = Scan::new(units);
        for at in 0..units.count() {
            if let Err(error) = units.unit(at).and_then(|unit| scan.unit(unit)) {
                scan.index.problems.push(format!("unit {at}: {error}"));
            }
            // The contents of the next units lie in no scope of this one.
            scan.close_scopes(isize::MIN, units.unit(at).map_or(u32::MAX, Unit::end));
        }
        let mut index = scan.index;
        index.info = fingerprint(units);
        index.names.sort_unstable();
        index.names.dedup();
        index.names.shrink_to_fit();
        index.scopes.shrink_to_fit();
        index.inlined.sort_unstable();
        index.inlined.shrink_to_fit();
        index
    }

    pub(crate) fn belongs_to(&self, units: &Units<'_>) -> bool {
        self.info == fingerprint(units)
    }

    /// Entries of this kind that may have this name: read theirs.
    pub(crate) fn named(&self, name: &[u8], kind: Kind) -> impl Iterator<Item = u32> + '_ {
        let hash = hash(name);
        let start = self.names.partition_point(|other| other.hash < hash);
        let alike = self.names[start..].iter().take_while(move |other| other.hash == hash);
        alike.filter(move |other| other.kind == kind).map(|other| other.entry)
    }

    /// Entries of this kind that have a name, in no order of use.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = u32> + '_ {
        self.names.iter().filter(move |name| name.kind == kind).map(|name| name.entry)
    }

    /// The copies of a function, by the number of its abstract entry.
    pub(crate) fn inlined(&self, origin: u32) -> impl Iterator<Item = u32> + '_ {
        let start = self.inlined.partition_point(|(function, _)| *function < origin);
        self.inlined[start..].iter().take_while(move |(function, _)| *function == origin).map(|(_, copy)| *copy)
    }

    /// The scopes around an entry, innermost first; itself is none of them.
    pub(crate) fn scopes_around(&self, entry: u32) -> impl Iterator<Item = u32> + '_ {
        let before = self.scopes.partition_point(|scope| scope.entry < entry);
        let mut at = before.checked_sub(1);
        std::iter::from_fn(move || {
            loop {
                let scope = self.scopes.get(at?)?;
                at = scope.parent.map(|parent| parent as usize);
                if entry < scope.end {
                    return Some(scope.entry);
                }
            }
        })
    }
}

fn fingerprint(units: &Units<'_>) -> (u64, u64) {
    let (info, types) = (units.dwarf.debug_info.reader_bytes(), units.dwarf.debug_types.reader_bytes());
    let hash = XxHash3_128::oneshot(info) ^ XxHash3_128::oneshot(types).rotate_left(1);
    ((info.len() + types.len()) as u64, hash as u64)
}

fn hash(name: &[u8]) -> u32 {
    XxHash3_128::oneshot(name) as u32
}

/// The name without template arguments, if it has some: `max` of `max<int>`.
pub(crate) fn without_arguments(name: &[u8]) -> Option<&[u8]> {
    let open = memchr::memchr(b'<', name)?;
    (name.ends_with(b">") && !name.starts_with(b"operator") && open > 0).then(|| &name[..open])
}

/// Hashes of an entry's names: plain, as the linker knows it, without template arguments.
type Hashes = [Option<u32>; 3];

struct Scan<'u, 'a> {
    units: &'u Units<'a>,
    index: Index,
    /// Open scopes: (depth, position).
    open: Vec<(isize, u32)>,
    /// Names of this unit's functions and variables, which definitions elsewhere in it refer to.
    declared: HashMap<u32, (Hashes, Option<u32>)>,
    /// (entry, whose name it has, kind)
    nameless: Vec<(u32, u32, Kind)>,
    attrs: Vec<Attribute<Slice<'a>>>,
    budget: usize,
}

impl<'u, 'a> Scan<'u, 'a> {
    fn new(units: &'u Units<'a>) -> Self {
        let bytes = units.dwarf.debug_info.reader_len() + units.dwarf.debug_types.reader_len();
        let budget = bytes.saturating_mul(ATTRIBUTES_TO_BYTES_MAX);
        let index = Index::default();
        Scan { units, index, open: vec![], declared: HashMap::new(), nameless: vec![], attrs: vec![], budget }
    }

    fn unit(&mut self, unit: &Unit<'a>) -> gimli::Result<()> {
        self.declared.clear();
        let mut raw = unit.inner.header.entries_raw(&unit.inner.abbreviations, None)?;
        while !raw.is_empty() {
            let entry = unit.start.saturating_add(u32::try_from(raw.next_offset().0).unwrap_or(u32::MAX));
            let depth = raw.next_depth();
            let Some(abbreviation) = raw.read_abbreviation()? else { continue };
            self.close_scopes(depth, entry);
            let attributes = abbreviation.attributes();
            let budget = self.budget.checked_sub(attributes.len());
            self.budget = budget.ok_or(gimli::Error::NoEntryAtGivenOffset(entry.into()))?;
            let tag = abbreviation.tag();
            if abbreviation.has_children() && is_scope(tag) {
                self.open_scope(depth, entry);
            }
            if is_named(tag) {
                let mut attrs = std::mem::take(&mut self.attrs);
                let outcome = raw.read_attributes(attributes, &mut attrs);
                self.attrs = attrs;
                outcome?;
                self.entry(unit, entry, tag);
            } else {
                raw.skip_attributes(attributes)?;
            }
        }
        self.name_nameless();
        Ok(())
    }

    fn open_scope(&mut self, depth: isize, entry: u32) {
        let parent = self.open.last().map(|(_, at)| *at);
        self.open.push((depth, self.index.scopes.len() as u32));
        self.index.scopes.push(Scope { entry, end: u32::MAX, parent });
    }

    fn close_scopes(&mut self, depth: isize, entry: u32) {
        while let Some(&(_, at)) = self.open.last().filter(|(open, _)| *open >= depth) {
            self.index.scopes[at as usize].end = entry;
            self.open.pop();
        }
    }

    fn entry(&mut self, unit: &Unit<'a>, entry: u32, tag: gimli::DwTag) {
        match tag {
            gimli::DW_TAG_inlined_subroutine => {
                let origin = self.reference(unit, gimli::DW_AT_abstract_origin);
                self.index.inlined.extend(origin.map(|origin| (origin, entry)));
            }
            gimli::DW_TAG_subprogram => {
                let has_code = self.has(gimli::DW_AT_low_pc) || self.has(gimli::DW_AT_ranges);
                self.maybe_declared(unit, entry, Kind::Function, has_code || self.is_inlined());
            }
            gimli::DW_TAG_variable => {
                let is_fixed = self.has_fixed_place();
                self.maybe_declared(unit, entry, Kind::Variable, is_fixed);
            }
            gimli::DW_TAG_enumerator => self.named(unit, entry, Kind::Enumerator),
            _ if !self.has(gimli::DW_AT_declaration) => self.named(unit, entry, Kind::Type),
            _ => {}
        }
    }

    fn named(&mut self, unit: &Unit<'a>, entry: u32, kind: Kind) {
        let hashes = self.hashes(unit);
        self.add(entry, kind, hashes);
    }

    /// A function or variable: remembered for others that refer to it, and a name of the program if it is `defined`.
    fn maybe_declared(&mut self, unit: &Unit<'a>, entry: u32, kind: Kind, defined: bool) {
        let hashes = self.hashes(unit);
        let origin = self
            .reference(unit, gimli::DW_AT_abstract_origin)
            .or_else(|| self.reference(unit, gimli::DW_AT_specification));
        if hashes != Hashes::default() || origin.is_some() {
            self.declared.insert(entry, (hashes, origin));
        }
        if defined {
            self.add(entry, kind, hashes);
            self.nameless.extend(origin.map(|origin| (entry, origin, kind)));
        }
    }

    /// Gives each definition the names of what it refers to.
    fn name_nameless(&mut self) {
        for (entry, origin, kind) in std::mem::take(&mut self.nameless) {
            let mut next = Some(origin);
            for _ in 0..ORIGINS_MAX {
                let Some(origin) = next else { break };
                let known = self.declared.get(&origin).copied();
                let Some((hashes, further)) = known.or_else(|| self.declared_elsewhere(origin)) else { break };
                self.add(entry, kind, hashes);
                next = further;
            }
        }
    }

    /// Names of an entry of another unit.
    fn declared_elsewhere(&mut self, entry: u32) -> Option<(Hashes, Option<u32>)> {
        let (die, unit) = self.units.die(entry).ok()?;
        self.attrs = die.attrs;
        let origin = self
            .reference(unit, gimli::DW_AT_abstract_origin)
            .or_else(|| self.reference(unit, gimli::DW_AT_specification));
        Some((self.hashes(unit), origin))
    }

    fn add(&mut self, entry: u32, kind: Kind, hashes: Hashes) {
        let names = hashes.into_iter().flatten().map(|hash| Name { hash, entry, kind });
        self.index.names.extend(names);
    }

    fn hashes(&self, unit: &Unit<'a>) -> Hashes {
        let text = |name| self.value(name).and_then(|value| self.units.string(&unit.inner, value));
        let name = text(gimli::DW_AT_name);
        let linkage = text(gimli::DW_AT_linkage_name).or_else(|| text(gimli::DW_AT_MIPS_linkage_name));
        let short = name.and_then(|name| without_arguments(name.slice()));
        [name.map(|name| hash(name.slice())), linkage.map(|name| hash(name.slice())), short.map(hash)]
    }

    /// True if a variable lies at one address, or at one offset of each thread's data, as long as the program runs.
    fn has_fixed_place(&self) -> bool {
        let Some(AttributeValue::Exprloc(expression)) = self.value(gimli::DW_AT_location) else {
            return self.has(gimli::DW_AT_const_value) && self.open.is_empty();
        };
        let bytes = expression.0.slice();
        let is_address = bytes.first().is_some_and(|op| [gimli::DW_OP_addr.0, gimli::DW_OP_addrx.0].contains(op));
        let tls = [gimli::DW_OP_form_tls_address.0, gimli::DW_OP_GNU_push_tls_address.0];
        is_address || bytes.last().is_some_and(|op| tls.contains(op))
    }

    fn is_inlined(&self) -> bool {
        let inline = self.value(gimli::DW_AT_inline);
        matches!(inline, Some(AttributeValue::Inline(gimli::DW_INL_inlined | gimli::DW_INL_declared_inlined)))
    }

    fn reference(&self, unit: &Unit<'a>, name: DwAt) -> Option<u32> {
        self.units.reference(unit, self.value(name)?)
    }

    fn value(&self, name: DwAt) -> Option<AttributeValue<Slice<'a>>> {
        self.attrs.iter().find(|attr| attr.name() == name).map(Attribute::value)
    }

    fn has(&self, name: DwAt) -> bool {
        self.attrs.iter().any(|attr| attr.name() == name)
    }
}

fn is_scope(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_subprogram
    )
}

fn is_named(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_subprogram
            | gimli::DW_TAG_inlined_subroutine
            | gimli::DW_TAG_variable
            | gimli::DW_TAG_enumerator
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_typedef
            | gimli::DW_TAG_base_type
            | gimli::DW_TAG_unspecified_type
            | gimli::DW_TAG_string_type
    )
}
