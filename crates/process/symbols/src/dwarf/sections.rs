//! The debugging sections of one file, unpacked: what [`crate::dwarf::Program`] borrows.
//!
//! Sections may be compressed (zlib or zstd, `-gz`), and may lie in a separate debug file, which the caller finds by
//! build id or by [`crate::Image::debug_link`] and reads. A section that unpacks to more than any compressor
//! achieves is refused before memory is asked for.
//!
//! Next: `units` for what is in them.

use crate::elf::{ENDIAN, Elf};
use crate::{Error, Image, Machine, gnu_build_id_of};
use gimli::{DwarfSections, SectionId};
use object::elf as names;
use object::read::elf::{CompressionHeader, SectionHeader};
use object::{CompressedData, CompressionFormat};
use std::borrow::Cow;
use std::ops::Range;

/// The most a byte can stand for: zlib's limit, which zstd's real output stays below.
const GROWTH_MAX: u64 = 1032;
/// All unpacked sections together, in bytes; the largest programs known have about 2 GiB.
const UNPACKED_BYTES_MAX: u64 = 4 << 30;
/// Sections that answer no question here: not unpacked.
const UNUSED: &[SectionId] = &[
    SectionId::DebugAranges,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugNames,
    SectionId::DebugPubNames,
    SectionId::DebugPubTypes,
];

/// Sections of lists that entries refer to.
const LISTS: &[SectionId] =
    &[SectionId::DebugLoc, SectionId::DebugLocLists, SectionId::DebugRanges, SectionId::DebugRngLists];

/// The debugging sections of one file.
#[derive(Debug)]
pub struct Sections<'a> {
    pub(crate) dwarf: DwarfSections<Cow<'a, [u8]>>,
    pub(crate) machine: Machine,
    /// Executable memory: a debug file has the same program headers as its program.
    pub(crate) code: Vec<Range<u64>>,
    /// Length of all lists of ranges and places, in bytes.
    pub(crate) list_bytes: usize,
    is_empty: bool,
    /// Name of the file that holds what several programs share (`dwz -m`).
    pub(crate) supplementary: Option<String>,
    /// Sections that could not be read, and what is not supported, each with the reason.
    pub problems: Vec<String>,
}

impl<'a> Sections<'a> {
    /// Finds and unpacks the debugging sections of a program, library or separate debug file.
    ///
    /// # Errors
    /// As [`Image::parse`] for bytes that are no usable ELF file. A damaged section becomes a line in
    /// [`Sections::problems`].
    pub fn of(bytes: &'a [u8]) -> Result<Sections<'a>, Error> {
        let elf = Elf::parse(bytes)?;
        let mut problems = Vec::new();
        let mut budget = UNPACKED_BYTES_MAX;
        let (mut list_bytes, mut is_empty) = (0, true);
        let dwarf = DwarfSections::load(|id| {
            if UNUSED.contains(&id) {
                return Ok(Cow::default());
            }
            let section = section(&elf, id.name(), &mut budget).unwrap_or_else(|problem| {
                problems.push(format!("{}: {problem}", id.name()));
                Cow::default()
            });
            is_empty &= id != SectionId::DebugInfo || section.is_empty();
            list_bytes += if LISTS.contains(&id) { section.len() } else { 0 };
            Ok::<_, Error>(section)
        })?;
        let supplementary = elf.section_bytes(".gnu_debugaltlink").map(|link| file_name_in(link.bytes));
        if let Some(file) = &supplementary {
            problems.push(format!("a part is in the supplementary file {file}, which is not read"));
        }
        let segments = elf.segments().into_iter().filter(|segment| segment.executable);
        let code = segments.map(|segment| segment.addr.0..segment.addr.0.saturating_add(segment.mem_size)).collect();
        Ok(Sections { dwarf, machine: elf.machine(), code, list_bytes, is_empty, supplementary, problems })
    }

    /// Sections by name, with all addresses up to 4 GiB taken for code. Public for fuzzing only: with it, inputs need no
    /// ELF file around them.
    #[doc(hidden)]
    pub fn of_parts(part: impl Fn(&str) -> &'a [u8]) -> Sections<'a> {
        let load = |id: SectionId| Ok::<_, std::convert::Infallible>(Cow::Borrowed(part(id.name())));
        let Ok(dwarf) = DwarfSections::load(load);
        let list_bytes = LISTS.iter().map(|id| part(id.name()).len()).sum();
        let is_empty = part(SectionId::DebugInfo.name()).is_empty();
        let code = std::iter::once(0..1 << 32).collect();
        Sections {
            dwarf,
            machine: Machine::X86_64,
            code,
            list_bytes,
            is_empty,
            supplementary: None,
            problems: Vec::new(),
        }
    }

    /// Those of a separate debug file, after checking that it belongs to `image`.
    ///
    /// # Errors
    /// As [`Sections::of`]; [`Error::OtherBuild`] if the debug file is not of the same build: other build id, or, where
    /// one of them has none, other addresses of code.
    pub fn of_debug_file(bytes: &'a [u8], image: &Image) -> Result<Sections<'a>, Error> {
        let sections = Sections::of(bytes)?;
        let debug = gnu_build_id_of(bytes).unwrap_or_default();
        let executable = image.segments.iter().filter(|segment| segment.executable);
        let code = executable.map(|segment| segment.addr.0..segment.addr.0.saturating_add(segment.mem_size));
        let is_same = if debug.0.is_empty() || image.build_id.0.starts_with("text-") {
            image.machine == sections.machine && code.eq(sections.code.iter().cloned())
        } else {
            debug == image.build_id
        };
        if is_same { Ok(sections) } else { Err(Error::OtherBuild { image: image.build_id.clone(), debug }) }
    }

    /// True if there is nothing to look up: the program was built without `-g`, or its debug file is elsewhere.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }
}

/// Bytes of the longest file name read.
const FILE_NAME_BYTES_MAX: usize = 4096;

/// The name at the beginning of a link to another file.
fn file_name_in(link: &[u8]) -> String {
    let name = link[..link.len().min(FILE_NAME_BYTES_MAX)].split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

fn section<'a>(elf: &Elf<'a>, name: &str, budget: &mut u64) -> Result<Cow<'a, [u8]>, String> {
    let Some(sections) = &elf.sections else { return Ok(Cow::default()) };
    let Some((_, header)) = sections.section_by_name(ENDIAN, name.as_bytes()) else {
        return old_packed_section(elf, name, budget);
    };
    if header.sh_type(ENDIAN) == names::SHT_NOBITS {
        return Ok(Cow::default());
    }
    match header.compression(ENDIAN, elf.bytes).map_err(|error| error.to_string())? {
        None => header.data(ENDIAN, elf.bytes).map(Cow::Borrowed).map_err(|error| error.to_string()),
        Some((compression, offset, size)) => {
            let format = match compression.ch_type(ENDIAN) {
                names::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
                names::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
                other => return Err(format!("compressed in an unknown way ({})", other.0)),
            };
            let packed = packed(elf.bytes, offset, size).ok_or("it reaches beyond the file")?;
            unpack(packed, format, compression.ch_size(ENDIAN), budget)
        }
    }
}

/// A section as linkers packed it before there was a standard for it: `.zdebug_info`, which begins with `ZLIB` and its
/// length.
fn old_packed_section<'a>(elf: &Elf<'a>, name: &str, budget: &mut u64) -> Result<Cow<'a, [u8]>, String> {
    const HEAD: &[u8] = b"ZLIB";
    let old_name = name.strip_prefix(".debug_").map(|name| format!(".zdebug_{name}"));
    let Some(section) = old_name.and_then(|name| elf.section_bytes(&name)) else { return Ok(Cow::default()) };
    let sized = section.bytes.strip_prefix(HEAD).and_then(<[u8]>::split_first_chunk);
    let (size, data) = sized.ok_or("it is not packed as its name says")?;
    unpack(data, CompressionFormat::Zlib, u64::from_be_bytes(*size), budget)
}

fn packed(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)
}

fn unpack<'a>(
    data: &'a [u8],
    format: CompressionFormat,
    uncompressed_size: u64,
    budget: &mut u64,
) -> Result<Cow<'a, [u8]>, String> {
    if uncompressed_size > (data.len() as u64).saturating_mul(GROWTH_MAX) {
        return Err(format!("{} bytes can't unpack to {uncompressed_size}", data.len()));
    }
    let rest = budget.checked_sub(uncompressed_size);
    *budget = rest.ok_or_else(|| format!("all sections would unpack to more than {UNPACKED_BYTES_MAX} bytes"))?;
    CompressedData { format, data, uncompressed_size }.decompress().map_err(|error| error.to_string())
}
