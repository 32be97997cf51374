//! The ELF headers of one file, checked: the only place that turns header fields into slices of the input.
//!
//! Section headers are a convenience that `sstrip` and the kernel's vDSO leave out, so everything needed to run is
//! also found through program headers. Debug files are the reverse: their program headers describe another file, and
//! only sections that are not `NOBITS` hold anything.
//!
//! Next: `parse`, which asks in order.

use crate::{Error, Machine, Segment};
use object::LittleEndian;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use std::ops::Range;
use trimtab_types::FileAddr;

/// The one flavour of header we read.
pub(crate) type Header = FileHeader64<LittleEndian>;
/// Its byte order.
pub(crate) const ENDIAN: LittleEndian = LittleEndian;

/// Linkers write about ten program headers; more than this is an attempt to make us slow.
const PROGRAM_HEADERS_MAX: usize = 1024;
/// Linked files have below a hundred sections, odd linker scripts some thousands.
const SECTIONS_MAX: usize = 8192;
/// Room for 100 bytes in each name of the largest table.
const SECTION_NAMES_BYTES_MAX: u64 = 1 << 20;

/// Headers of one file and its bytes.
pub(crate) struct Elf<'a> {
    pub bytes: &'a [u8],
    header: &'a Header,
    program_headers: &'a [ProgramHeader64<LittleEndian>],
    /// `None` when the file has no section headers.
    pub sections: Option<SectionTable<'a, Header>>,
    pub problems: Vec<String>,
}

/// A piece of the file that is mapped at an address.
#[derive(Clone, Copy)]
pub(crate) struct Mapped<'a> {
    pub addr: u64,
    pub offset: u64,
    pub bytes: &'a [u8],
}

impl<'a> Elf<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        check_identity(bytes)?;
        let header = Header::parse(bytes).map_err(|error| Error::malformed(error.to_string()))?;
        let program_headers =
            header.program_headers(ENDIAN, bytes).map_err(|error| Error::malformed(error.to_string()))?;
        if program_headers.len() > PROGRAM_HEADERS_MAX {
            let count = program_headers.len();
            return Err(Error::malformed(format!("{count} program headers, at most {PROGRAM_HEADERS_MAX} make sense")));
        }
        let mut problems = Vec::new();
        let sections = sections(bytes, header).unwrap_or_else(|problem| {
            problems.push(format!("section headers: {problem}"));
            None
        });
        Ok(Elf { bytes, header, program_headers, sections, problems })
    }

    pub fn machine(&self) -> Machine {
        Machine::from_elf(self.header.e_machine(ENDIAN))
    }

    pub fn file_type(&self) -> elf::FileType {
        self.header.e_type(ENDIAN)
    }

    pub fn entry(&self) -> FileAddr {
        FileAddr(self.header.e_entry(ENDIAN))
    }

    pub fn has_program_header(&self, kind: elf::ProgramType) -> bool {
        self.program_headers.iter().any(|header| header.p_type(ENDIAN) == kind)
    }

    /// The mapped segments; ranges that leave the address space are left out.
    pub fn segments(&self) -> Vec<Segment> {
        let is_load = |header: &&ProgramHeader64<LittleEndian>| header.p_type(ENDIAN) == elf::PT_LOAD;
        let fits = |header: &&ProgramHeader64<LittleEndian>| {
            header.p_vaddr(ENDIAN).checked_add(header.p_memsz(ENDIAN)).is_some()
        };
        self.program_headers.iter().filter(is_load).filter(fits).map(|header| self.segment(header)).collect()
    }

    /// The mapped bytes of the first program header of this type, cut to the file's end.
    pub fn program_bytes(&self, kind: elf::ProgramType) -> Option<Mapped<'a>> {
        let header = self.program_headers.iter().find(|header| header.p_type(ENDIAN) == kind)?;
        self.mapped(header.p_vaddr(ENDIAN), header.p_offset(ENDIAN), header.p_filesz(ENDIAN))
    }

    /// Where the bytes of the first program header of this type lie in the file.
    pub fn program_range(&self, kind: elf::ProgramType) -> Option<Range<usize>> {
        let found = self.program_bytes(kind)?;
        let start = usize::try_from(found.offset).ok()?;
        Some(start..start + found.bytes.len())
    }

    /// The bytes of every note segment, with their alignment.
    pub fn note_segments(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        let notes = self.program_headers.iter().filter(|header| header.p_type(ENDIAN) == elf::PT_NOTE);
        notes.filter_map(|header| Some((header.p_align(ENDIAN), header.data(ENDIAN, self.bytes).ok()?)))
    }

    /// From `addr` to the end of its segment's part of the file.
    pub fn bytes_from(&self, addr: u64) -> Option<Mapped<'a>> {
        self.segments().iter().find_map(|segment| {
            let inside = addr.checked_sub(segment.addr.0)?;
            let rest = segment.file_size.checked_sub(inside).filter(|&rest| rest > 0)?;
            self.mapped(addr, segment.file_offset.checked_add(inside)?, rest)
        })
    }

    /// The section of this name that has bytes in the file.
    pub fn section_bytes(&self, name: &str) -> Option<Mapped<'a>> {
        let sections = self.sections.as_ref()?;
        let (_, section) = sections.section_by_name(ENDIAN, name.as_bytes())?;
        self.section_mapped(section)
    }

    /// The first section of this type that has bytes in the file.
    pub fn section_of_type(&self, kind: elf::SectionType) -> Option<Mapped<'a>> {
        let section = self.sections.as_ref()?.iter().find(|section| section.sh_type(ENDIAN) == kind)?;
        self.section_mapped(section)
    }

    /// Address ranges of executable sections, by ascending start, each with whether it is a procedure linkage table.
    pub fn code_sections(&self) -> Vec<(Range<u64>, bool)> {
        let Some(sections) = &self.sections else { return Vec::new() };
        let is_code = |section: &&SectionHeader64<LittleEndian>| {
            section.sh_flags(ENDIAN).contains(elf::SHF_EXECINSTR) && section.sh_flags(ENDIAN).contains(elf::SHF_ALLOC)
        };
        let mut ranges: Vec<(Range<u64>, bool)> = sections
            .iter()
            .filter(is_code)
            .filter_map(|section| {
                let start = section.sh_addr(ENDIAN);
                let name = sections.section_name(ENDIAN, section).unwrap_or_default();
                let is_plt = name.starts_with(b".plt") || name.starts_with(b".iplt");
                Some((start..start.checked_add(section.sh_size(ENDIAN))?, is_plt))
            })
            .collect();
        ranges.sort_by_key(|(range, _)| range.start);
        ranges
    }

    /// Linkage tables (`.plt`, `.plt.sec`, ...), each with the bytes from one stub to the next.
    pub fn linkage_tables(&self) -> Vec<(Mapped<'a>, u64)> {
        let Some(sections) = &self.sections else { return Vec::new() };
        let tables = sections.iter().filter(|section| {
            let name = sections.section_name(ENDIAN, section).unwrap_or_default();
            let is_code = section.sh_flags(ENDIAN).contains(elf::SHF_EXECINSTR);
            is_code && (name.starts_with(b".plt") || name.starts_with(b".iplt"))
        });
        let step = |size: u64| if size == 8 { 8 } else { 16 };
        tables.filter_map(|table| Some((self.section_mapped(table)?, step(table.sh_entsize(ENDIAN))))).collect()
    }

    /// Sections of relocations with addends that are in memory at run time.
    pub fn loaded_relocations(&self) -> impl Iterator<Item = Mapped<'a>> {
        let sections = self.sections.iter().flat_map(|sections| sections.iter());
        let loaded = sections.filter(|section| {
            section.sh_type(ENDIAN) == elf::SHT_RELA && section.sh_flags(ENDIAN).contains(elf::SHF_ALLOC)
        });
        loaded.filter_map(|section| self.section_mapped(section))
    }

    /// True if the code is in another file: there are code sections, and none has bytes.
    pub fn is_debug_only(&self) -> bool {
        let Some(sections) = &self.sections else { return false };
        let is_code = |section: &&SectionHeader64<LittleEndian>| section.sh_flags(ENDIAN).contains(elf::SHF_EXECINSTR);
        let mut code = sections.iter().filter(is_code).peekable();
        code.peek().is_some() && code.all(|section| section.sh_type(ENDIAN) == elf::SHT_NOBITS)
    }

    fn segment(&self, header: &ProgramHeader64<LittleEndian>) -> Segment {
        let flags = header.p_flags(ENDIAN);
        let mem_size = header.p_memsz(ENDIAN);
        let in_file = (self.bytes.len() as u64).saturating_sub(header.p_offset(ENDIAN));
        Segment {
            file_offset: header.p_offset(ENDIAN),
            addr: FileAddr(header.p_vaddr(ENDIAN)),
            file_size: header.p_filesz(ENDIAN).min(mem_size).min(in_file),
            mem_size,
            executable: flags.contains(elf::PF_X),
            writable: flags.contains(elf::PF_W),
        }
    }

    fn section_mapped(&self, section: &SectionHeader64<LittleEndian>) -> Option<Mapped<'a>> {
        let (offset, size) = section.file_range(ENDIAN)?;
        self.mapped(section.sh_addr(ENDIAN), offset, size)
    }

    fn mapped(&self, addr: u64, offset: u64, size: u64) -> Option<Mapped<'a>> {
        let start = usize::try_from(offset).ok()?;
        let rest = self.bytes.get(start..)?;
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(rest.len());
        addr.checked_add(size as u64)?;
        Some(Mapped { addr, offset, bytes: &rest[..size] })
    }
}

/// The section headers, `None` where the file has none.
fn sections<'a>(bytes: &'a [u8], header: &'a Header) -> Result<Option<SectionTable<'a, Header>>, String> {
    let sections = header.sections(ENDIAN, bytes).map_err(|error| error.to_string())?;
    if sections.len() > SECTIONS_MAX {
        return Err(format!("{} of them, at most {SECTIONS_MAX} make sense", sections.len()));
    }
    let names = header.section_strings_index(ENDIAN, bytes).and_then(|index| sections.section(index));
    let names_bytes = names.map_or(0, |names| names.sh_size(ENDIAN));
    if names_bytes > SECTION_NAMES_BYTES_MAX {
        return Err(format!("{names_bytes} bytes of names, at most {SECTION_NAMES_BYTES_MAX} make sense"));
    }
    Ok(if sections.is_empty() { None } else { Some(sections) })
}

/// Tells files we can't read by their first bytes, before any header is trusted.
fn check_identity(bytes: &[u8]) -> Result<(), Error> {
    let not_elf = || Error::NotElf { length: bytes.len(), first: bytes.iter().take(4).copied().collect() };
    let ident = bytes.get(..20).filter(|ident| ident.starts_with(b"\x7fELF")).ok_or_else(not_elf)?;
    let is_big_endian = ident[5] == 2;
    let halfword = |low: u8, high: u8| if is_big_endian { [high, low] } else { [low, high] };
    let machine = u16::from_le_bytes(halfword(ident[18], ident[19]));
    match (ident[4], ident[5]) {
        (1, _) => Err(Error::Not64Bit { machine }),
        (2, 2) => Err(Error::BigEndian),
        (2, 1) => Ok(()),
        (class, order) => Err(Error::malformed(format!("ELF class {class} and byte order {order} don't exist"))),
    }
}
