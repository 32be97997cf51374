//! From a file's bytes to an [`Image`], in the order: headers, dynamic section, symbols, unwind table, settle.
//!
//! Next: `elf` for headers, `symtab` for symbols, [`crate::frames`] for the unwind table, `settle` for the outcome.

use crate::dynamic::Dynamic;
use crate::elf::Elf;
use crate::settle::{self, CodeSpace};
use crate::{Error, Image, ImageKind, Segment, frames, linkage, minidebug, notes, symtab};
use object::elf;

/// The longest name of a debug file read, in bytes.
const DEBUG_LINK_BYTES_MAX: usize = 4096;

impl Image {
    /// Reads an executable, library or separate debug file.
    ///
    /// # Errors
    /// [`Error::NotElf`], [`Error::Not64Bit`], [`Error::BigEndian`] and [`Error::NotLoadable`] for files that can't be
    /// measured, [`Error::Malformed`] for unusable headers. Single damaged tables are listed in [`Image::problems`].
    pub fn parse(bytes: &[u8]) -> Result<Image, Error> {
        let mut elf = Elf::parse(bytes)?;
        let dynamic = Dynamic::parse(&elf);
        let kind = kind(&elf, &dynamic)?;
        let mut problems = std::mem::take(&mut elf.problems);
        let is_debug_only = elf.is_debug_only();
        let segments = segments(&elf, is_debug_only);
        let space = CodeSpace::new(&segments, elf.code_sections());
        let unwind = frames::index(&elf, &|addr| space.is_code(addr), &mut problems);
        let mini = minidebug::unpack(&elf, &mut problems);
        let mini = mini.as_deref().and_then(|bytes| mini_elf(bytes, &mut problems));
        let mut claims = symtab::claims(&elf, &dynamic, &mut problems);
        if let Some(mini) = &mini {
            claims.extend(symtab::claims(mini, &Dynamic::default(), &mut problems));
        }
        claims.extend(settle::frame_claims(&unwind.frames, &space));
        let slots = linkage::slots(&elf, &dynamic, &mut problems);
        let settled = settle::settle(claims, &space, &unwind.frames);
        Ok(Image {
            build_id: notes::build_id(&elf, &segments),
            machine: elf.machine(),
            is_64: true,
            kind,
            entry: elf.entry(),
            file_size_bytes: bytes.len() as u64,
            segments,
            functions: settled.functions,
            fragments: settled.fragments,
            objects: settled.objects,
            stubs: if is_debug_only { Vec::new() } else { linkage::stubs(&elf, &slots, &unwind.frames) },
            slots,
            needed: dynamic.needed,
            soname: dynamic.soname,
            debug_link: debug_link(&elf),
            is_debug_only,
            problems,
            unwind,
            ..Image::default()
        })
    }
}

fn kind(elf: &Elf, dynamic: &Dynamic) -> Result<ImageKind, Error> {
    let has_loader = elf.has_program_header(elf::PT_INTERP);
    match elf.file_type() {
        elf::ET_EXEC if has_loader || dynamic.is_present => Ok(ImageKind::Dynamic),
        elf::ET_EXEC => Ok(ImageKind::Static),
        elf::ET_DYN if dynamic.is_pie && has_loader => Ok(ImageKind::DynamicPie),
        elf::ET_DYN if dynamic.is_pie => Ok(ImageKind::StaticPie),
        // Linkers before 2017 didn't mark executables; libraries that can be run (libc) have a name.
        elf::ET_DYN if has_loader && dynamic.soname.is_none() => Ok(ImageKind::DynamicPie),
        // Nor do all that make static ones; what needs nobody, has no name and is started somewhere is no library.
        elf::ET_DYN if is_started_alone(elf, dynamic) => Ok(ImageKind::StaticPie),
        elf::ET_DYN => Ok(ImageKind::SharedLibrary),
        other => Err(Error::NotLoadable { elf_type: other.0, meaning: meaning_of(other) }),
    }
}

fn is_started_alone(elf: &Elf, dynamic: &Dynamic) -> bool {
    dynamic.soname.is_none() && dynamic.needed.is_empty() && elf.entry().0 != 0
}

fn meaning_of(file_type: elf::FileType) -> &'static str {
    match file_type {
        elf::ET_REL => "an object file that is not linked yet",
        elf::ET_CORE => "a core dump",
        _ => "unknown",
    }
}

/// A debug file's segments keep their addresses; what they say about bytes is true of the other file only.
fn segments(elf: &Elf, is_debug_only: bool) -> Vec<Segment> {
    let mut segments = elf.segments();
    if is_debug_only {
        segments.iter_mut().for_each(|segment| segment.file_size = 0);
    }
    segments
}

fn mini_elf<'a>(bytes: &'a [u8], problems: &mut Vec<String>) -> Option<Elf<'a>> {
    let parsed = Elf::parse(bytes);
    parsed.map_err(|error| problems.push(format!("mini symbols: {error}"))).ok()
}

fn debug_link(elf: &Elf) -> Option<String> {
    let section = elf.section_bytes(".gnu_debuglink")?.bytes;
    let name = section[..section.len().min(DEBUG_LINK_BYTES_MAX)].split(|&byte| byte == 0).next()?;
    if name.is_empty() { None } else { Some(String::from_utf8_lossy(name).into_owned()) }
}
