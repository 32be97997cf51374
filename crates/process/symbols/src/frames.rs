//! The unwind table (`.eh_frame`): which code ranges belong to one frame, how far the stack pointer is from the
//! frame's base, and where exceptions land.
//!
//! Parsing a file makes an index of all entries ([`Frame`]), which is cached with the image; looking a place up is a
//! binary search in it. Rules and exception tables are read from the file's bytes only when asked for, because a
//! window needs them for a few hundred functions of tens of thousands.
//!
//! Next: `lsda` for exception tables, `settle` for how entries become functions.

use crate::elf::{Elf, Mapped};
use crate::lsda::{self, CallSiteRow};
use crate::parts::{Frame, FrameKind, Unwind};
use crate::{Error, Function, Image, Machine};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, Encoding, EndianSlice, LittleEndian, Operation, Pointer,
};
use gimli::{RegisterRule, UnwindContext, UnwindExpression, UnwindSection};
use object::elf;
use std::collections::HashMap;
use std::ops::Range;
use trimtab_types::FileAddr;

/// The longest common entry (CIE) used, in bytes: its rules are replayed for each of its frames. Compilers write
/// about 20.
const CIE_BYTES_MAX: usize = 1024;
/// Call sites and rule rows collected for one function at most.
const FACTS_MAX: usize = 1 << 20;

/// The unwind entry that covers an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdeInfo {
    /// The addresses it covers.
    pub range: Range<FileAddr>,
    /// The address asked for is the first it covers.
    pub initial_location_is_addr: bool,
    /// Frame base (CFA) minus stack pointer at that address, in bytes: 8 just after a call. `None` if the rule there
    /// doesn't use the stack pointer.
    pub cfa_rsp_offset_at: Option<i64>,
    /// The register that the frame base is counted from at that address, by its DWARF number, and the bytes to add.
    /// `None` if the rule there is a calculation.
    pub cfa_register_at: Option<(u16, i64)>,
    /// Its exception table.
    pub lsda: Option<FileAddr>,
    /// Code to which signal handlers return.
    pub is_signal_frame: bool,
}

/// The unwind table's facts about one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnwindFacts {
    /// Whole ranges of all entries that touch the function's own range, ascending.
    pub ranges: Vec<Range<FileAddr>>,
    /// Where exceptions continue, ascending, each once. A jump may arrive at each of them at any time.
    pub landing_pads: Vec<FileAddr>,
    /// The rows of its exception tables.
    pub call_sites: Vec<CallSiteRow>,
    /// The distance of stack pointer and frame base, for each stretch of code, ascending.
    pub cfa_rows: Vec<CfaRow>,
    /// One of the entries is of code to which signal handlers return.
    pub is_signal_frame: bool,
}

/// A stretch of code in which the stack pointer stays put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CfaRow {
    /// The addresses.
    pub range: Range<FileAddr>,
    /// Frame base (CFA) minus stack pointer in bytes; `None` if the rule doesn't use the stack pointer.
    pub rsp_offset: Option<i64>,
}

impl UnwindFacts {
    /// Frame base minus stack pointer at `addr` in bytes; `None` if unknown or not stated by the stack pointer.
    pub fn cfa_rsp_offset_at(&self, addr: FileAddr) -> Option<i64> {
        let after = self.cfa_rows.partition_point(|row| row.range.start <= addr);
        self.cfa_rows[..after].last().filter(|row| addr < row.range.end)?.rsp_offset
    }
}

/// The unwind table's facts about `function`, which may also be one of the image's fragments.
///
/// # Errors
/// [`Error::OtherFile`] if `bytes` is not the file `image` was made from; [`Error::BadFrame`] and
/// [`Error::BadExceptionTable`] if a table can't be trusted: then the function should be left alone.
pub fn unwind_facts(bytes: &[u8], image: &Image, function: &Function) -> Result<UnwindFacts, Error> {
    unwind_facts_of(bytes, image, function.addr..function.end())
}

/// The unwind table's facts about the code in `range`; an empty range stands for its first byte.
///
/// # Errors
/// As [`unwind_facts`].
pub fn unwind_facts_of(bytes: &[u8], image: &Image, range: Range<FileAddr>) -> Result<UnwindFacts, Error> {
    let table = Table::of(bytes, image)?;
    let end = range.end.max(FileAddr(range.start.0.saturating_add(1)));
    let frames = &image.unwind.frames;
    let first = frames.partition_point(|frame| frame.addr.0.saturating_add(frame.size) <= range.start.0);
    let mut facts = UnwindFacts::default();
    for frame in frames[first..].iter().take_while(|frame| frame.addr < end) {
        table.collect(image, bytes, frame, &mut facts)?;
    }
    facts.landing_pads = facts.call_sites.iter().filter_map(|site| site.landing_pad).collect();
    facts.landing_pads.sort_unstable();
    facts.landing_pads.dedup();
    Ok(facts)
}

/// The unwind entry that covers `addr`, with its rule there; `None` where no entry does.
///
/// # Errors
/// [`Error::OtherFile`] if `bytes` is not the file `image` was made from, [`Error::BadFrame`] if the entry is
/// damaged. Neither may be taken for "no entry".
pub fn fde_at(bytes: &[u8], image: &Image, addr: FileAddr) -> Result<Option<FdeInfo>, Error> {
    let table = Table::of(bytes, image)?;
    let Some(frame) = image.frame_at(addr) else { return Ok(None) };
    let fde = table.fde(frame)?;
    let mut context = UnwindContext::new();
    let row = fde.unwind_info_for_address(&table.section, &table.bases, &mut context, addr.0);
    let row = row.map_err(|error| bad_frame(addr, error))?;
    Ok(Some(FdeInfo {
        range: FileAddr(fde.initial_address())..FileAddr(fde.end_address()),
        initial_location_is_addr: fde.initial_address() == addr.0,
        cfa_rsp_offset_at: stack_offset(row.cfa(), image.machine),
        cfa_register_at: match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Some((register.0, *offset)),
            CfaRule::Expression(_) => None,
        },
        lsda: lsda_of(&fde, frame)?,
        is_signal_frame: fde.is_signal_trampoline(),
    }))
}

/// Registers that a called function must give back, by their DWARF numbers: rbx, rbp, r12 to r15.
pub const KEPT_REGISTERS: [u16; 6] = [3, 6, 12, 13, 14, 15];

/// How a function's caller is found, at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerRules {
    /// Where the frame base (CFA) is.
    pub cfa: FrameBase,
    /// Where the return address lies, from the frame base; `None`: this is the outermost frame.
    pub return_address: Option<i64>,
    /// For each of [`KEPT_REGISTERS`], where its value lies.
    pub kept: [Kept; 6],
}

/// Where a frame base is: so many bytes from what a register holds, or what lies in memory there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameBase {
    /// The register, by its DWARF number.
    pub register: u16,
    /// Bytes to add to it.
    pub offset: i64,
    /// The base is the word at that address, as in functions that have aligned their stack.
    pub is_in_memory: bool,
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In the register.
    Unchanged,
    /// In memory, so many bytes from the frame base.
    At(i64),
    /// In memory, so many bytes from what the register with this DWARF number holds.
    AtRegister(u16, i64),
    /// Nowhere that we know.
    Lost,
}

/// How the caller of the code at `addr` is found; `None` where the table does not say it or needs a calculation other than
/// those that compilers write for functions that align their stack.
///
/// # Errors
/// As [`fde_at`].
pub fn caller_rules(bytes: &[u8], image: &Image, addr: FileAddr) -> Result<Option<CallerRules>, Error> {
    let table = Table::of(bytes, image)?;
    let Some(frame) = image.frame_at(addr).filter(|_| image.machine == Machine::X86_64) else { return Ok(None) };
    let fde = table.fde(frame)?;
    let mut context = UnwindContext::new();
    let row = fde.unwind_info_for_address(&table.section, &table.bases, &mut context, addr.0);
    let row = row.map_err(|error| bad_frame(addr, error))?;
    let encoding = fde.cie().encoding();
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            FrameBase { register: register.0, offset: *offset, is_in_memory: false }
        }
        CfaRule::Expression(calculation) => match table.register_and_offset(calculation, encoding, true) {
            Some((register, offset)) => FrameBase { register, offset, is_in_memory: true },
            None => return Ok(None),
        },
    };
    let return_address = match row.register(fde.cie().return_address_register()) {
        Some(RegisterRule::Offset(offset)) => Some(offset),
        Some(RegisterRule::Undefined) => None,
        _ => return Ok(None),
    };
    let kept = KEPT_REGISTERS.map(|number| match row.register(gimli::Register(number)) {
        None | Some(RegisterRule::SameValue) => Kept::Unchanged,
        Some(RegisterRule::Offset(offset)) => Kept::At(offset),
        Some(RegisterRule::Expression(calculation)) => table
            .register_and_offset(&calculation, encoding, false)
            .map_or(Kept::Lost, |(register, offset)| Kept::AtRegister(register, offset)),
        _ => Kept::Lost,
    });
    Ok(Some(CallerRules { cfa, return_address, kept }))
}

type Input<'a> = EndianSlice<'a, LittleEndian>;
type Fde<'a> = gimli::FrameDescriptionEntry<Input<'a>>;

/// The section's bytes, ready to be read by gimli.
struct Table<'a> {
    section: EhFrame<Input<'a>>,
    bases: BaseAddresses,
    machine: Machine,
}

impl<'a> Table<'a> {
    fn of(bytes: &'a [u8], image: &Image) -> Result<Self, Error> {
        if bytes.len() as u64 != image.file_size_bytes {
            return Err(Error::OtherFile { expected: image.file_size_bytes, given: bytes.len() as u64 });
        }
        let start = usize::try_from(image.unwind.offset).ok();
        let end = image.unwind.offset.checked_add(image.unwind.size).and_then(|end| usize::try_from(end).ok());
        let section = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
        let section = section.ok_or_else(|| Error::malformed("the unwind table reaches beyond the file"))?;
        Ok(Table::new(section, image.unwind.addr, image.machine))
    }

    fn new(section: &'a [u8], addr: u64, machine: Machine) -> Self {
        let bases = BaseAddresses::default().set_eh_frame(addr);
        Table { section: EhFrame::new(section, LittleEndian), bases, machine }
    }

    /// A calculation that is no more than a register and an offset, with a look into memory behind it if `is_read`.
    fn register_and_offset(
        &self,
        calculation: &UnwindExpression<usize>,
        encoding: Encoding,
        is_read: bool,
    ) -> Option<(u16, i64)> {
        const WORD_BYTES: u8 = 8;
        let mut steps = calculation.get(&self.section).ok()?.operations(encoding);
        let Some(Operation::RegisterOffset { register, offset, .. }) = steps.next().ok()? else { return None };
        if is_read && !matches!(steps.next().ok()?, Some(Operation::Deref { size: WORD_BYTES, space: false, .. })) {
            return None;
        }
        steps.next().ok()?.is_none().then_some((register.0, offset))
    }

    fn fde(&self, frame: &Frame) -> Result<Fde<'a>, Error> {
        let offset = (frame.entry_offset as usize).into();
        let fde = self.section.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset);
        let fde = fde.map_err(|error| bad_frame(frame.addr, error))?;
        if fde.initial_address() != frame.addr.0 {
            return Err(bad_frame(frame.addr, "it has changed since the file was parsed"));
        }
        Ok(fde)
    }

    fn collect(&self, image: &Image, bytes: &[u8], frame: &Frame, facts: &mut UnwindFacts) -> Result<(), Error> {
        let fde = self.fde(frame)?;
        let start = FileAddr(fde.initial_address());
        facts.ranges.push(start..FileAddr(fde.end_address()));
        facts.is_signal_frame |= fde.is_signal_trampoline();
        self.collect_rows(&fde, frame, facts)?;
        if let Some(lsda) = lsda_of(&fde, frame)? {
            facts.call_sites.extend(lsda::call_sites(bytes, image, lsda, start)?);
        }
        if facts.call_sites.len() > FACTS_MAX {
            return Err(bad_frame(frame.addr, "more call sites than any compiler writes"));
        }
        Ok(())
    }

    fn collect_rows(&self, fde: &Fde, frame: &Frame, facts: &mut UnwindFacts) -> Result<(), Error> {
        let bad = |error| bad_frame(frame.addr, error);
        let mut context = UnwindContext::new();
        let mut rows = fde.rows(&self.section, &self.bases, &mut context).map_err(bad)?;
        while let Some(row) = rows.next_row().map_err(bad)? {
            let range = FileAddr(row.start_address())..FileAddr(row.end_address());
            let rsp_offset = stack_offset(row.cfa(), self.machine);
            match facts.cfa_rows.last_mut() {
                _ if range.is_empty() => {}
                // Rows that differ only in saved registers are one stretch for us.
                Some(last) if last.range.end == range.start && last.rsp_offset == rsp_offset => {
                    last.range.end = range.end;
                }
                _ => facts.cfa_rows.push(CfaRow { range, rsp_offset }),
            }
            if facts.cfa_rows.len() > FACTS_MAX {
                return Err(bad_frame(frame.addr, "more rows than any compiler writes"));
            }
        }
        Ok(())
    }
}

/// Finds the unwind table of a file and makes its index: sorted, without overlaps, executable code only.
pub(crate) fn index(elf: &Elf, is_code: &dyn Fn(u64) -> bool, problems: &mut Vec<String>) -> Unwind {
    let Some(place) = place_of(elf, problems) else { return Unwind::default() };
    let section = place.section;
    let table = Table::new(section.bytes, section.addr, elf.machine());
    let mut frames = Scan::new(&table, section.bytes).frames(place.entries, problems);
    frames.retain(|frame| is_code(frame.addr.0));
    frames.sort_by_key(|frame| frame.addr);
    frames.dedup_by_key(|frame| frame.addr);
    cut_overlaps(&mut frames);
    Unwind { addr: section.addr, offset: section.offset, size: section.bytes.len() as u64, frames }
}

/// Where the unwind table lies.
struct UnwindTable<'a> {
    /// Its bytes; without section headers, all up to the end of its segment.
    section: Mapped<'a>,
    /// Offsets of entries in it, if a search table gives them; else it must be read from front to back.
    entries: Option<Vec<usize>>,
}

/// `.eh_frame` by its section header, else by the program header of its search table.
fn place_of<'a>(elf: &Elf<'a>, problems: &mut Vec<String>) -> Option<UnwindTable<'a>> {
    let by_name = elf.section_bytes(".eh_frame").filter(|section| !section.bytes.is_empty());
    if by_name.is_some() || elf.is_debug_only() {
        return by_name.map(|section| UnwindTable { section, entries: None });
    }
    let found = place_by_search_table(elf, elf.program_bytes(elf::PT_GNU_EH_FRAME)?);
    found.map_err(|problem| problems.push(format!(".eh_frame_hdr: {problem}"))).ok()
}

fn place_by_search_table<'a>(elf: &Elf<'a>, search_table: Mapped<'a>) -> Result<UnwindTable<'a>, String> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(search_table.addr);
    let header = EhFrameHdr::new(search_table.bytes, LittleEndian).parse(&bases, 8).map_err(|e| e.to_string())?;
    let section = header.eh_frame_ptr().direct().ok().and_then(|addr| elf.bytes_from(addr));
    let section = section.ok_or("it points outside of the file")?;
    let Some(rows) = header.table() else { return Ok(UnwindTable { section, entries: None }) };
    let mut entries = Vec::new();
    let mut rows = rows.iter(&bases);
    while let Some((_, entry)) = rows.next().map_err(|error| error.to_string())? {
        let addr = entry.direct().map_err(|error| error.to_string())?;
        entries.extend(addr.checked_sub(section.addr).and_then(|offset| usize::try_from(offset).ok()));
    }
    entries.sort_unstable();
    entries.dedup();
    Ok(UnwindTable { section, entries: Some(entries) })
}

/// Entries and common entries may overlap in a hostile file; together they may be this many times the section's size.
const ENTRIES_TO_SECTION_MAX: usize = 4;

type Common<'a> = gimli::CommonInformationEntry<Input<'a>>;
type PartialFde<'bases, 'a> = gimli::PartialFrameDescriptionEntry<'bases, EhFrame<Input<'a>>, Input<'a>>;

/// One pass over the section.
struct Scan<'t, 'a> {
    table: &'t Table<'a>,
    bytes: &'a [u8],
    /// Common entries by offset.
    common: HashMap<usize, gimli::Result<Common<'a>>>,
    context: UnwindContext<usize>,
    /// Bytes that may still be read.
    budget: usize,
    refused: usize,
}

impl<'t, 'a> Scan<'t, 'a> {
    fn new(table: &'t Table<'a>, bytes: &'a [u8]) -> Self {
        let budget = bytes.len().saturating_mul(ENTRIES_TO_SECTION_MAX);
        Scan { table, bytes, common: HashMap::new(), context: UnwindContext::new(), budget, refused: 0 }
    }

    fn frames(&mut self, entries: Option<Vec<usize>>, problems: &mut Vec<String>) -> Vec<Frame> {
        let mut frames = Vec::new();
        let outcome = match entries {
            Some(entries) => {
                self.given(&entries, &mut frames);
                Ok(())
            }
            None => self.all(&mut frames),
        };
        if let Err(error) = outcome {
            problems.push(format!("unwind table: {error}, after {} entries", frames.len()));
        }
        if self.refused > 0 {
            problems.push(format!("unwind table: {} damaged entries left out", self.refused));
        }
        frames
    }

    /// Front to back.
    fn all(&mut self, frames: &mut Vec<Frame>) -> gimli::Result<()> {
        let table = self.table;
        let mut entries = table.section.entries(&table.bases);
        while let Some(entry) = entries.next()? {
            if let CieOrFde::Fde(partial) = entry {
                self.add(&partial, frames);
            }
        }
        Ok(())
    }

    /// Those at given offsets.
    fn given(&mut self, offsets: &[usize], frames: &mut Vec<Frame>) {
        let table = self.table;
        for &offset in offsets {
            match table.section.partial_fde_from_offset(&table.bases, offset.into()) {
                Ok(partial) => self.add(&partial, frames),
                Err(_) => self.refused += 1,
            }
        }
    }

    fn add(&mut self, partial: &PartialFde<'_, 'a>, frames: &mut Vec<Frame>) {
        match self.frame(partial) {
            Some(Ok(frame)) => frames.extend(frame),
            Some(Err(_)) | None => self.refused += 1,
        }
    }

    /// `None` for entries that no compiler makes, `Some(Ok(None))` for those whose code the linker has dropped.
    fn frame(&mut self, partial: &PartialFde<'_, 'a>) -> Option<gimli::Result<Option<Frame>>> {
        let common = self.common(partial.cie_offset().0, partial.entry_len())?;
        let fde = match partial.parse(|_, _, _| common.clone()) {
            Ok(fde) if fde.len() == 0 => return Some(Ok(None)),
            Ok(fde) => fde,
            Err(error) => return Some(Err(error)),
        };
        fde.initial_address().checked_add(fde.len())?;
        let entry_offset = u32::try_from(fde.offset()).ok()?;
        let frame = |kind| Frame { addr: FileAddr(fde.initial_address()), size: fde.len(), kind, entry_offset };
        Some(self.kind(&fde).map(|kind| Some(frame(kind))))
    }

    /// The common entry of an entry of `entry_bytes`; `None` if it is too long, or too much was read already.
    fn common(&mut self, offset: usize, entry_bytes: usize) -> Option<gimli::Result<Common<'a>>> {
        self.budget = self.budget.checked_sub(entry_bytes)?;
        if let Some(common) = self.common.get(&offset) {
            return Some(common.clone());
        }
        let length = u32::from_le_bytes(*self.bytes.get(offset..)?.first_chunk()?) as usize;
        if length > CIE_BYTES_MAX {
            return None;
        }
        self.budget = self.budget.checked_sub(length)?;
        let common = self.table.section.cie_from_offset(&self.table.bases, offset.into());
        self.common.insert(offset, common.clone());
        Some(common)
    }

    fn kind(&mut self, fde: &Fde) -> gimli::Result<FrameKind> {
        if fde.is_signal_trampoline() {
            return Ok(FrameKind::Signal);
        }
        let table = self.table;
        let start = fde.initial_address();
        let row = fde.unwind_info_for_address(&table.section, &table.bases, &mut self.context, start)?;
        let Some(expected) = table.machine.entry_cfa_offset() else { return Ok(FrameKind::Entry) };
        let is_entry = stack_offset(row.cfa(), table.machine) == Some(expected);
        Ok(if is_entry { FrameKind::Entry } else { FrameKind::Part })
    }
}

/// Ends each frame where the next begins at the latest, so that look-ups have one answer.
fn cut_overlaps(frames: &mut [Frame]) {
    for at in 1..frames.len() {
        let next = frames[at].addr.0;
        let frame = &mut frames[at - 1];
        frame.size = frame.size.min(next - frame.addr.0);
    }
}

fn stack_offset(rule: &CfaRule<usize>, machine: Machine) -> Option<i64> {
    match rule {
        CfaRule::RegisterAndOffset { register, offset } if Some(*register) == machine.stack_pointer() => Some(*offset),
        CfaRule::RegisterAndOffset { .. } | CfaRule::Expression(_) => None,
    }
}

fn lsda_of(fde: &Fde, frame: &Frame) -> Result<Option<FileAddr>, Error> {
    match fde.lsda() {
        None | Some(Pointer::Direct(0)) => Ok(None),
        Some(Pointer::Direct(addr)) => Ok(Some(FileAddr(addr))),
        Some(Pointer::Indirect(_)) => Err(bad_frame(frame.addr, "its exception table is named indirectly")),
    }
}

fn bad_frame(addr: FileAddr, what: impl ToString) -> Error {
    Error::BadFrame { addr, what: what.to_string() }
}
