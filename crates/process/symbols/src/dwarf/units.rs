//! Units and entries (DIEs): where each lies, and its attributes, read from the sections when asked for.
//!
//! Opening reads unit headers only. Abbreviations and a unit's root entry are read at the first question about it and
//! kept. Entries are numbered by their offset in `.debug_info`; those of `.debug_types` (DWARF 4) follow.
//!
//! The input is hostile: tables that units share are cut where the next one begins, so that none is read more often
//! than it has bytes, and every walk has a budget.
//!
//! Next: `index` for finding entries by name.

use super::error::LookupError;
use super::sections::Sections;
use gimli::{Abbreviations, Attribute, AttributeValue, DebugAbbrev, DebugAbbrevOffset, DwAt, DwTag, EndianSlice};
use gimli::{EntriesRaw, LittleEndian, SectionId, UnitHeader, UnitOffset, UnitType};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;
pub(crate) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// Attributes of one walk may be this many times the bytes it walks over, because some take no byte at all.
const ATTRIBUTES_TO_BYTES_MAX: usize = 4;
/// And this many more, for small units.
const ATTRIBUTES_MIN: usize = 4096;
/// Entries of range and location lists that may be read however small the sections are.
const LIST_ENTRIES_MIN: usize = 4096;
/// The longest text read, in bytes. C++ names reach some thousands.
const TEXT_BYTES_MAX: usize = 32 * 1024;

/// All units of a program.
pub(crate) struct Units<'a> {
    pub dwarf: Dwarf<'a>,
    slots: Vec<Slot<'a>>,
    list_bytes: usize,
    /// Entry that defines the type, by signature.
    signatures: HashMap<u64, u32>,
    /// Where a table of abbreviations begins, ascending.
    abbreviation_starts: Vec<usize>,
    abbreviations: Mutex<HashMap<usize, gimli::Result<Arc<Abbreviations>>>>,
}

struct Slot<'a> {
    start: u32,
    end: u32,
    header: UnitHeader<Slice<'a>>,
    unit: OnceLock<gimli::Result<Unit<'a>>>,
}

/// One unit: what its root entry says.
pub(crate) struct Unit<'a> {
    /// Its position among the units.
    pub index: u32,
    /// Where its header begins; entries' numbers are relative to it in references.
    pub start: u32,
    /// Number of its root entry.
    pub root: u32,
    pub inner: gimli::Unit<Slice<'a>>,
    pub language: u16,
    pub line_offset: Option<usize>,
    /// Ranges of its code; empty if its root says nothing.
    pub ranges: Vec<Range<u64>>,
}

impl Unit<'_> {
    /// The first number behind its entries.
    pub fn end(&self) -> u32 {
        let length = u32::try_from(self.inner.header.length_including_self()).unwrap_or(u32::MAX);
        self.start.saturating_add(length)
    }

    /// True if it is one source file's code and data, not types or a part that others include.
    pub fn is_whole(&self) -> bool {
        matches!(self.inner.header.type_(), UnitType::Compilation)
    }
}

/// One entry (DIE) with its attributes.
#[derive(Clone)]
pub(crate) struct Die<'a> {
    pub id: u32,
    pub tag: DwTag,
    pub has_children: bool,
    pub attrs: Vec<Attribute<Slice<'a>>>,
}

impl<'a> Die<'a> {
    fn none() -> Self {
        Die { id: 0, tag: gimli::DW_TAG_null, has_children: false, attrs: Vec::new() }
    }

    pub fn attr(&self, name: DwAt) -> Option<AttributeValue<Slice<'a>>> {
        self.attrs.iter().find(|attr| attr.name() == name).map(Attribute::value)
    }

    pub fn has(&self, name: DwAt) -> bool {
        self.attrs.iter().any(|attr| attr.name() == name)
    }

    pub fn unsigned(&self, name: DwAt) -> Option<u64> {
        self.attr(name)?.udata_value()
    }

    pub fn flag(&self, name: DwAt) -> bool {
        matches!(self.attr(name), Some(AttributeValue::Flag(true)))
    }
}

impl<'a> Units<'a> {
    pub fn open(sections: &'a Sections<'a>, problems: &mut Vec<String>) -> Self {
        let dwarf = sections.dwarf.borrow(|section| EndianSlice::new(section, LittleEndian));
        let headers = headers(&dwarf, problems);
        let info_bytes = dwarf.debug_info.reader_len();
        let mut slots = Vec::with_capacity(headers.len());
        let mut signatures = HashMap::new();
        for header in headers {
            let base = if header.section() == SectionId::DebugTypes { info_bytes } else { 0 };
            let start = header.offset().0.checked_add(base).and_then(|start| u32::try_from(start).ok());
            let end = start.and_then(|start| start.checked_add(u32::try_from(header.length_including_self()).ok()?));
            let (Some(start), Some(end)) = (start, end) else {
                problems.push("units beyond the first 4 GiB are left out".to_string());
                break;
            };
            if let UnitType::Type { type_signature, type_offset } = header.type_() {
                let entry = u32::try_from(type_offset.0).ok().and_then(|offset| start.checked_add(offset));
                signatures.extend(entry.map(|entry| (type_signature.0, entry)));
            }
            slots.push(Slot { start, end, header, unit: OnceLock::new() });
        }
        let mut starts: Vec<usize> = slots.iter().map(|slot| slot.header.debug_abbrev_offset().0).collect();
        starts.sort_unstable();
        starts.dedup();
        Units {
            dwarf,
            slots,
            list_bytes: sections.list_bytes,
            signatures,
            abbreviation_starts: starts,
            abbreviations: Mutex::default(),
        }
    }

    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The unit at a position; read at the first call.
    pub fn unit(&self, index: usize) -> gimli::Result<&Unit<'a>> {
        let slot = self.slots.get(index).ok_or(gimli::Error::NoEntryAtGivenOffset(index as u64))?;
        slot.unit.get_or_init(|| self.read_unit(index, slot)).as_ref().map_err(|error| *error)
    }

    /// The file that holds the entries of a unit which was compiled with `-gsplit-dwarf`.
    pub fn split_file(&self, index: usize) -> Option<String> {
        let unit = self.unit(index).ok()?;
        let name = self.string(&unit.inner, unit.inner.dwo_name().ok()??)?;
        Some(name.to_string_lossy().into_owned())
    }

    /// The unit that holds an entry.
    pub fn unit_of(&self, entry: u32) -> gimli::Result<&Unit<'a>> {
        let after = self.slots.partition_point(|slot| slot.start <= entry);
        let found = after.checked_sub(1).filter(|&at| entry < self.slots[at].end);
        self.unit(found.ok_or(gimli::Error::NoEntryAtGivenOffset(entry.into()))?)
    }

    /// One entry.
    pub fn die(&self, entry: u32) -> gimli::Result<(Die<'a>, &Unit<'a>)> {
        let mut walk = self.walk(entry)?;
        walk.next()?.ok_or(gimli::Error::NoEntryAtGivenOffset(entry.into()))?;
        Ok((walk.die, walk.unit))
    }

    /// An entry (at depth 0) and all below it, in order.
    pub fn walk(&self, entry: u32) -> gimli::Result<Walk<'_, 'a>> {
        let unit = self.unit_of(entry)?;
        let offset = UnitOffset(entry.saturating_sub(unit.start) as usize);
        let raw = unit.inner.header.entries_raw(&unit.inner.abbreviations, Some(offset))?;
        let bytes = unit.inner.header.length_including_self().saturating_sub(offset.0);
        let budget = bytes.saturating_mul(ATTRIBUTES_TO_BYTES_MAX).saturating_add(ATTRIBUTES_MIN);
        Ok(Walk {
            raw,
            unit,
            die: Die::none(),
            budget,
            depth: 0,
            started: false,
            skip_below: isize::MAX,
            start_offset: offset.0,
        })
    }

    /// The entry that an attribute of an entry in `unit` refers to; `None` for supplementary files and nonsense.
    pub fn reference(&self, unit: &Unit<'a>, value: AttributeValue<Slice<'a>>) -> Option<u32> {
        match value {
            AttributeValue::UnitRef(offset) => unit.start.checked_add(u32::try_from(offset.0).ok()?),
            AttributeValue::DebugInfoRef(offset) => u32::try_from(offset.0).ok(),
            AttributeValue::DebugTypesRef(signature) => self.signatures.get(&signature.0).copied(),
            _ => None,
        }
    }

    /// The entry that attribute `name` of `die` refers to.
    pub fn follow(&self, unit: &Unit<'a>, die: &Die<'a>, name: DwAt) -> Option<u32> {
        self.reference(unit, die.attr(name)?)
    }

    /// A text attribute, as it is in the file.
    pub fn text(&self, unit: &Unit<'a>, die: &Die<'a>, name: DwAt) -> Option<Slice<'a>> {
        self.string(&unit.inner, die.attr(name)?)
    }

    /// The text of an attribute's value; `None` if it is none, or longer than any name.
    pub fn string(&self, unit: &gimli::Unit<Slice<'a>>, value: AttributeValue<Slice<'a>>) -> Option<Slice<'a>> {
        let cut = |section: &'a [u8], offset: usize| {
            let tail = section.get(offset..)?;
            let tail = &tail[..tail.len().min(TEXT_BYTES_MAX)];
            Some(EndianSlice::new(&tail[..memchr::memchr(0, tail)?], LittleEndian))
        };
        let long = |offset: usize| cut(self.dwarf.debug_str.reader_bytes(), offset);
        match value {
            AttributeValue::String(text) => Some(text),
            AttributeValue::DebugStrRef(offset) => long(offset.0),
            AttributeValue::DebugLineStrRef(offset) => cut(self.dwarf.debug_line_str.reader_bytes(), offset.0),
            AttributeValue::DebugStrOffsetsIndex(index) => long(self.dwarf.string_offset(unit, index).ok()?.0),
            _ => None,
        }
    }

    /// How many entries of lists may be read while a walk lasts: lists may overlap in a hostile file.
    pub fn list_budget(&self) -> usize {
        self.list_bytes.saturating_mul(2).saturating_add(LIST_ENTRIES_MIN)
    }

    /// The address ranges of an entry, without empty ones and those whose code the linker dropped.
    pub fn ranges(
        &self,
        unit: &gimli::Unit<Slice<'a>>,
        attrs: &[Attribute<Slice<'a>>],
        budget: &mut usize,
    ) -> Vec<Range<u64>> {
        let mut low = None;
        let mut high = None;
        for attr in attrs {
            match attr.name() {
                gimli::DW_AT_low_pc => low = self.dwarf.attr_address(unit, attr.value()).ok().flatten(),
                gimli::DW_AT_high_pc => high = Some(attr.value()),
                gimli::DW_AT_ranges => return self.range_list(unit, attr.value(), budget).unwrap_or_default(),
                _ => {}
            }
        }
        let (Some(low), Some(high)) = (low, high) else { return Vec::new() };
        let end = match high.udata_value().filter(|_| !matches!(high, AttributeValue::Addr(_))) {
            Some(size) => low.checked_add(size),
            None => self.dwarf.attr_address(unit, high).ok().flatten(),
        };
        end.filter(|&end| is_kept(low, end)).map(|end| low..end).into_iter().collect()
    }

    fn range_list(
        &self,
        unit: &gimli::Unit<Slice<'a>>,
        value: AttributeValue<Slice<'a>>,
        budget: &mut usize,
    ) -> Option<Vec<Range<u64>>> {
        let mut list = self.dwarf.attr_ranges(unit, value).ok()??;
        let mut ranges = Vec::new();
        loop {
            *budget = budget.checked_sub(1)?;
            let Some(raw) = list.next_raw().ok()? else { break };
            let Some(range) = list.convert_raw(raw).ok()? else { continue };
            if is_kept(range.begin, range.end) {
                ranges.push(range.begin..range.end);
            }
        }
        Some(ranges)
    }

    fn read_unit(&self, index: usize, slot: &Slot<'a>) -> gimli::Result<Unit<'a>> {
        let abbreviations = self.abbreviations(slot.header.debug_abbrev_offset().0)?;
        let header = slot.header;
        let root_offset = header.root_offset();
        let mut attrs = Vec::new();
        {
            let mut raw = header.entries_raw(&abbreviations, Some(root_offset))?;
            let abbreviation = raw.read_abbreviation()?.ok_or(gimli::Error::MissingUnitDie)?;
            raw.read_attributes(abbreviation.attributes(), &mut attrs)?;
        }
        let mut inner = bare_unit(header, abbreviations);
        set_bases(&mut inner, &attrs);
        let value = |name| attrs.iter().find(|attr| attr.name() == name).map(Attribute::value);
        inner.name = value(gimli::DW_AT_name).and_then(|name| self.string(&inner, name));
        inner.comp_dir = value(gimli::DW_AT_comp_dir).and_then(|dir| self.string(&inner, dir));
        let low = value(gimli::DW_AT_low_pc).map(|low| self.dwarf.attr_address(&inner, low)).transpose()?;
        inner.low_pc = low.flatten().unwrap_or(0);
        let line_offset = match value(gimli::DW_AT_stmt_list) {
            Some(AttributeValue::DebugLineRef(offset)) => Some(offset.0),
            _ => None,
        };
        let language = match value(gimli::DW_AT_language) {
            Some(AttributeValue::Language(language)) => language.0,
            _ => 0,
        };
        let ranges = self.ranges(&inner, &attrs, &mut self.list_budget());
        let root = slot.start.saturating_add(u32::try_from(root_offset.0).unwrap_or(u32::MAX));
        Ok(Unit { index: index as u32, start: slot.start, root, inner, language, line_offset, ranges })
    }

    /// The table at an offset, cut where the next one begins.
    fn abbreviations(&self, start: usize) -> gimli::Result<Arc<Abbreviations>> {
        let mut known = self.abbreviations.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(start).or_insert_with(|| self.read_abbreviations(start)).clone()
    }

    fn read_abbreviations(&self, start: usize) -> gimli::Result<Arc<Abbreviations>> {
        let section = self.dwarf.debug_abbrev.reader_bytes();
        let after = self.abbreviation_starts.partition_point(|&other| other <= start);
        let end = self.abbreviation_starts.get(after).map_or(section.len(), |&end| end.min(section.len()));
        let bytes = section.get(start..end).unwrap_or_default();
        DebugAbbrev::new(bytes, LittleEndian).abbreviations(DebugAbbrevOffset(0)).map(Arc::new)
    }
}

/// The length or bytes of a section that gimli has wrapped.
pub(crate) trait Wrapped<'a> {
    fn reader_bytes(&self) -> &'a [u8];
    fn reader_len(&self) -> usize {
        self.reader_bytes().len()
    }
}

impl<'a, T: gimli::Section<Slice<'a>>> Wrapped<'a> for T {
    fn reader_bytes(&self) -> &'a [u8] {
        self.reader().slice()
    }
}

/// Linkers leave entries of dropped code behind, at address 0, 1 or the last ones.
fn is_kept(begin: u64, end: u64) -> bool {
    begin > 1 && begin < end && begin < u64::MAX - 1
}

fn headers<'a>(dwarf: &Dwarf<'a>, problems: &mut Vec<String>) -> Vec<UnitHeader<Slice<'a>>> {
    let mut headers = Vec::new();
    let mut refused = Vec::new();
    let mut units = dwarf.units();
    loop {
        match units.next() {
            Ok(Some(header)) => headers.push(header),
            Ok(None) => break,
            Err(error) => {
                refused.push(format!(".debug_info: {error}, after {} units", headers.len()));
                break;
            }
        }
    }
    let mut type_units = dwarf.type_units();
    while let Some(header) = type_units.next().unwrap_or_else(|error| {
        refused.push(format!(".debug_types: {error}"));
        None
    }) {
        headers.push(header);
    }
    if headers.iter().any(|header| matches!(header.type_(), UnitType::Skeleton(_))) {
        refused.push("a part is in separate .dwo files (-gsplit-dwarf), which are not read".to_string());
    }
    problems.extend(refused);
    headers
}

fn bare_unit<'a>(header: UnitHeader<Slice<'a>>, abbreviations: Arc<Abbreviations>) -> gimli::Unit<Slice<'a>> {
    gimli::Unit {
        header,
        abbreviations,
        name: None,
        comp_dir: None,
        low_pc: 0,
        str_offsets_base: gimli::DebugStrOffsetsBase(0),
        addr_base: gimli::DebugAddrBase(0),
        loclists_base: gimli::DebugLocListsBase(0),
        rnglists_base: gimli::DebugRngListsBase(0),
        line_program: None,
        dwo_id: None,
    }
}

fn set_bases<'a>(unit: &mut gimli::Unit<Slice<'a>>, attrs: &[Attribute<Slice<'a>>]) {
    for attr in attrs {
        match (attr.name(), attr.value()) {
            (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => unit.str_offsets_base = base,
            (_, AttributeValue::DebugAddrBase(base)) => unit.addr_base = base,
            (_, AttributeValue::DebugLocListsBase(base)) => unit.loclists_base = base,
            (_, AttributeValue::DebugRngListsBase(base)) => unit.rnglists_base = base,
            _ => {}
        }
    }
}

/// A walk over an entry and all below it.
pub(crate) struct Walk<'u, 'a> {
    raw: EntriesRaw<'u, Slice<'a>>,
    pub unit: &'u Unit<'a>,
    /// The entry [`Walk::next`] read last.
    pub die: Die<'a>,
    budget: usize,
    depth: isize,
    started: bool,
    skip_below: isize,
    start_offset: usize,
}

impl<'a> Walk<'_, 'a> {
    /// Reads the next entry into [`Walk::die`]; returns its depth below the first one, `None` at the end.
    pub fn next(&mut self) -> gimli::Result<Option<isize>> {
        self.next_of(|_| true)
    }

    /// As [`Walk::next`], without entries of tags that are not wanted; what is below those is walked over too.
    pub fn next_of(&mut self, is_wanted: impl Fn(DwTag) -> bool) -> gimli::Result<Option<isize>> {
        while !self.raw.is_empty() {
            if self.started && self.raw.next_depth() <= 0 {
                break;
            }
            self.started = true;
            let offset = self.raw.next_offset().0;
            let depth = self.raw.next_depth();
            let Some(abbreviation) = self.raw.read_abbreviation()? else { continue };
            let attributes = abbreviation.attributes();
            let budget = self.budget.checked_sub(attributes.len() + 1);
            self.budget = budget.ok_or(gimli::Error::NoEntryAtGivenOffset(offset as u64))?;
            if depth > self.skip_below || !is_wanted(abbreviation.tag()) {
                self.raw.skip_attributes(attributes)?;
                continue;
            }
            self.skip_below = isize::MAX;
            self.depth = depth;
            self.raw.read_attributes(attributes, &mut self.die.attrs)?;
            self.die.id = self.unit.start.saturating_add(u32::try_from(offset).unwrap_or(u32::MAX));
            self.die.tag = abbreviation.tag();
            self.die.has_children = abbreviation.has_children();
            return Ok(Some(depth));
        }
        Ok(None)
    }

    /// The depth of [`Walk::die`].
    pub fn depth(&self) -> isize {
        self.depth
    }

    /// How many bytes of entries have been walked over.
    pub fn bytes_read(&self) -> usize {
        self.raw.next_offset().0.saturating_sub(self.start_offset)
    }

    /// Leaves out what is below the entry of this depth, the one read last.
    pub fn skip_children(&mut self, depth: isize) {
        self.skip_below = depth;
    }
}

impl From<gimli::Error> for LookupError {
    fn from(error: gimli::Error) -> Self {
        LookupError::Damaged { what: error.to_string() }
    }
}

/// Fortran's codes (`DW_AT_language`).
const FORTRAN: &[u16] = &[
    gimli::DW_LANG_Fortran77.0,
    gimli::DW_LANG_Fortran90.0,
    gimli::DW_LANG_Fortran95.0,
    gimli::DW_LANG_Fortran03.0,
    gimli::DW_LANG_Fortran08.0,
    gimli::DW_LANG_Fortran18.0,
];

pub(crate) fn is_fortran(unit: &Unit<'_>) -> bool {
    FORTRAN.contains(&unit.language)
}
