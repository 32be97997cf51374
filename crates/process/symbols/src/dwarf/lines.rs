//! Source lines: which code was made from a line, and from which line an instruction was made.
//!
//! File names of all units are read at the first question about a file; line tables only of the units that name it.
//! Names match by their end (`file.c`, `dir/file.c`), whole parts at a time.
//!
//! Next: `blocks`, which tells the functions and inlined copies apart that one line's code is in.

use super::blocks::SourcePlace;
use super::error::LookupError;
use super::line_tables::{Files, FoundFile, Row, Table};
use super::program::{EntryId, Program};
use super::units::{Slice, Unit, Wrapped};
use gimli::{AttributeValue, DebugLine, DebugLineOffset, FileEntry, IncompleteLineProgram, LittleEndian};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, PoisonError};
use trimtab_types::FileAddr;

/// The longest header of a line table read, in bytes: the names of some ten thousand files.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// Tables may overlap in a hostile file; together they may be this many times the section's length.
const TABLES_TO_SECTION_MAX: u64 = 4;
/// Stretches of code of one line that are told apart at most.
const STRETCHES_MAX: usize = 1 << 14;
/// Names listed in errors.
const NAMES_LISTED_MAX: usize = 8;
/// The longest path made of a directory and a file, in bytes (Linux' PATH_MAX).
const PATH_BYTES_MAX: usize = 4096;

/// The code made from one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCode {
    /// Full name of the source file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// Where its code begins, by ascending address: once in each function, and in each inlined copy.
    pub places: Vec<LinePlace>,
}

/// Where code of a line begins in one function or inlined copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinePlace {
    /// The lowest address of the line's code there that is the beginning of a statement.
    pub addr: FileAddr,
    /// The column of that code, from 1; 0 if unknown.
    pub column: u32,
    /// The function with code of its own around it.
    pub function: Option<EntryId>,
    /// The copy of an inlined function around it, the innermost one.
    pub inlined: Option<EntryId>,
}

impl<'a> Program<'a> {
    /// Where the code of a source line begins.
    ///
    /// # Errors
    /// [`LookupError::NotFound`] if no source file has this name; [`LookupError::Ambiguous`] if several with code have
    /// it; [`LookupError::NoCode`] if the file has none from this line.
    pub fn code_of_line(&self, file: &str, line: u32) -> Result<LineCode, LookupError> {
        let (path, tables) = self.tables_of_file(file)?;
        let mut starts = Vec::new();
        let mut next: Option<u32> = None;
        for (table, numbers) in &tables {
            for row in table.rows.iter().filter(|row| row.is_statement && numbers.contains(&row.file)) {
                if row.line > line {
                    next = Some(next.map_or(row.line, |next| next.min(row.line)));
                }
            }
            starts.extend(table.stretches(line, numbers));
        }
        if starts.is_empty() {
            return Err(LookupError::NoCode { file: path, line, next });
        }
        starts.sort_unstable();
        let mut seen = BTreeSet::new();
        let mut places = Vec::new();
        for (addr, column) in starts.into_iter().take(STRETCHES_MAX) {
            let around = self.innermost(FileAddr(addr), &path, line);
            // Code that belongs to no function is told apart by its address.
            if seen.insert(around.map_or((addr, u32::MAX), |(_, block)| (0, block))) {
                let inlined = around.filter(|(function, block)| function.0 != *block).map(|(_, block)| EntryId(block));
                let function = around.map(|(function, _)| function);
                places.push(LinePlace { addr: FileAddr(addr), column, function, inlined });
            }
        }
        Ok(LineCode { file: path, line, places })
    }

    /// The source that the instruction at `addr` was made from, where a line table says so.
    pub fn line_at(&self, addr: FileAddr) -> Option<SourcePlace> {
        let unit = self.units.unit(self.unit_at(addr)?).ok()?;
        let row_of = |table: &Table| table.row_at(addr.0).map(|row| (row.file, row.line, row.column));
        let (file, line, column) = row_of(&*self.table(unit)?)?;
        Some(SourcePlace { file: self.file_name(unit, file.into())?, line, column })
    }

    /// Full names of all source files that line tables name, in order, each once.
    fn source_files(&self) -> Vec<String> {
        let mut names = BTreeSet::new();
        for &(_, unit) in self.line_owners() {
            if let Some(files) = self.units.unit(unit).ok().and_then(|unit| self.files(unit)) {
                names.extend(files.names.iter().filter(|name| !name.is_empty()).cloned());
            }
        }
        names.into_iter().collect()
    }

    /// The source lines that begin a statement in `range`, as full name and line, in order, each once.
    pub fn lines_in(&self, range: Range<FileAddr>) -> Vec<(String, u32)> {
        let unit = self.unit_at(range.start).and_then(|at| self.units.unit(at).ok());
        let Some((unit, table)) = unit.and_then(|unit| Some((unit, self.table(unit)?))) else { return Vec::new() };
        let is_inside = |row: &&Row| row.is_statement && row.line > 0 && range.contains(&FileAddr(row.addr));
        let lines: BTreeSet<(u16, u32)> = table.rows.iter().filter(is_inside).map(|row| (row.file, row.line)).collect();
        let named = |(file, line): (u16, u32)| Some((self.file_name(unit, file.into())?, line));
        lines.into_iter().filter_map(named).collect()
    }

    /// The full name of a file by its number in a unit's table.
    pub(crate) fn file_name(&self, unit: &Unit<'a>, number: u64) -> Option<String> {
        let files = self.files(unit)?;
        files.names.get(usize::try_from(number).ok()?).filter(|name| !name.is_empty()).cloned()
    }

    fn tables_of_file(&self, file: &str) -> FoundFile {
        let known = self.lines.by_name.lock().unwrap_or_else(PoisonError::into_inner).get(file).cloned();
        known.unwrap_or_else(|| {
            let found = self.find_tables(file);
            let mut known = self.lines.by_name.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(file.to_string(), found.clone());
            found
        })
    }

    fn find_tables(&self, file: &str) -> FoundFile {
        let wanted = normal(file);
        let mut found: BTreeMap<String, Vec<(usize, Vec<u16>)>> = BTreeMap::new();
        for &(_, at) in self.line_owners() {
            let Some(files) = self.units.unit(at).ok().and_then(|unit| self.files(unit)) else { continue };
            for (name, numbers) in files.matching(&wanted) {
                found.entry(name.to_string()).or_default().push((at, numbers));
            }
        }
        if let Some(exact) = found.remove(&wanted) {
            return Ok((wanted, self.with_rows(&exact)));
        }
        if found.is_empty() {
            let near = self.files_alike(&wanted);
            return Err(LookupError::NotFound { what: "source file", name: file.to_string(), near });
        }
        let tables = found.into_iter().map(|(name, users)| (name, self.with_rows(&users)));
        let (mut with_code, without): (Vec<_>, Vec<_>) = tables.partition(|(_, tables)| !tables.is_empty());
        match with_code.len() {
            0 => without.into_iter().next().ok_or_else(|| LookupError::NotFound {
                what: "source file",
                name: file.to_string(),
                near: Vec::new(),
            }),
            1 => Ok(with_code.remove(0)),
            _ => Err(LookupError::Ambiguous {
                what: "source file",
                name: file.to_string(),
                candidates: with_code.into_iter().take(NAMES_LISTED_MAX).map(|(name, _)| name).collect(),
            }),
        }
    }

    fn with_rows(&self, users: &[(usize, Vec<u16>)]) -> Vec<(Arc<Table>, Vec<u16>)> {
        let table = |(unit, numbers): &(usize, Vec<u16>)| {
            let table = self.table(self.units.unit(*unit).ok()?)?;
            table.rows.iter().any(|row| numbers.contains(&row.file)).then(|| (table, numbers.clone()))
        };
        users.iter().filter_map(table).collect()
    }

    /// Files of the same name in other letters, or with another ending.
    fn files_alike(&self, wanted: &str) -> Vec<String> {
        let stem = |name: &str| {
            let base = name.rsplit('/').next().unwrap_or(name);
            base.split('.').next().unwrap_or(base).to_ascii_lowercase()
        };
        let wanted = stem(wanted);
        self.source_files().into_iter().filter(|name| stem(name) == wanted).take(NAMES_LISTED_MAX).collect()
    }

    /// (offset of a table, a unit that uses it), each table once.
    fn line_owners(&self) -> &[(usize, usize)] {
        self.lines.owners.get_or_init(|| {
            let offset = |at: usize| Some((self.units.unit(at).ok()?.line_offset?, at));
            let mut owners: Vec<(usize, usize)> = (0..self.units.count()).filter_map(offset).collect();
            owners.sort_unstable();
            owners.dedup_by_key(|(offset, _)| *offset);
            owners
        })
    }

    fn files(&self, unit: &Unit<'a>) -> Option<Arc<Files>> {
        let offset = unit.line_offset?;
        let mut known = self.lines.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files = known.entry(offset).or_insert_with(|| {
            let program = self.line_program(unit);
            Arc::new(program.map(|program| self.file_names(unit, &program)).unwrap_or_default())
        });
        Some(files.clone())
    }

    fn file_names(&self, unit: &Unit<'a>, program: &IncompleteLineProgram<Slice<'a>>) -> Files {
        let header = program.header();
        let count = header.file_names().len() + usize::from(header.version() < 5);
        let path = |number: usize| Some(self.path(unit, program, header.file(number as u64)?));
        Files { names: (0..count.min(usize::from(u16::MAX))).map(|number| path(number).unwrap_or_default()).collect() }
    }

    /// The full name of a file: relative ones are so to a directory, and that to where the compiler ran.
    fn path(&self, unit: &Unit<'a>, program: &IncompleteLineProgram<Slice<'a>>, file: &FileEntry<Slice<'a>>) -> String {
        let text = |value: AttributeValue<Slice<'a>>| {
            let text = self.units.string(&unit.inner, value).unwrap_or_default();
            text.to_string_lossy().into_owned()
        };
        let mut path = text(file.path_name());
        let directory = file.directory(program.header()).map(text);
        let compiled_in = unit.inner.comp_dir.map(|dir| dir.to_string_lossy().into_owned());
        for base in [directory, compiled_in].into_iter().flatten() {
            if !path.starts_with('/') && path.len() + base.len() < PATH_BYTES_MAX {
                path = format!("{base}/{path}");
            }
        }
        normal(&path)
    }

    fn table(&self, unit: &Unit<'a>) -> Option<Arc<Table>> {
        let offset = unit.line_offset?;
        let mut known = self.lines.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let table = known.entry(offset).or_insert_with(|| {
            let read = self.line_program(unit).map(|program| Table::read(program, &|addr| self.is_code(addr)));
            Arc::new(read.unwrap_or_default())
        });
        Some(table.clone())
    }

    /// A unit's line table, if its header is sound, and if no more was read already than the section holds.
    fn line_program(&self, unit: &Unit<'a>) -> Option<IncompleteLineProgram<Slice<'a>>> {
        let section = self.units.dwarf.debug_line.reader_bytes();
        let bytes = section.get(unit.line_offset?..)?;
        let lengths = Lengths::of(bytes)?;
        let mut bytes_read = self.lines.bytes_read.lock().unwrap_or_else(PoisonError::into_inner);
        *bytes_read = bytes_read.saturating_add(lengths.whole);
        let limit = (section.len() as u64).saturating_mul(TABLES_TO_SECTION_MAX);
        if lengths.header > HEADER_BYTES_MAX || *bytes_read > limit {
            return None;
        }
        let table = DebugLine::new(bytes, LittleEndian);
        let address_size = unit.inner.encoding().address_size;
        table.program(DebugLineOffset(0), address_size, unit.inner.comp_dir, unit.inner.name).ok()
    }
}

/// The lengths a line table begins with, in bytes.
struct Lengths {
    whole: u64,
    header: u64,
}

impl Lengths {
    fn of(bytes: &[u8]) -> Option<Lengths> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let is_long = word(0)? == u32::MAX;
        let (whole, rest) = if is_long { (long(4)?, 12) } else { (word(0)?.into(), 4) };
        let version = u16::from_le_bytes(*bytes.get(rest..)?.first_chunk()?);
        let header_at = rest + if version >= 5 { 4 } else { 2 };
        let header = if is_long { long(header_at)? } else { word(header_at)?.into() };
        Some(Lengths { whole, header })
    }
}

/// A path without `.`, `..` and empty parts.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if path.starts_with('/') { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_plain() {
        for (path, expected) in [
            ("/a/./b//c.c", "/a/b/c.c"),
            ("/a/../c.c", "/c.c"),
            ("/../c.c", "/c.c"),
            ("../c.c", "../c.c"),
            ("../../c.c", "../../c.c"),
            ("./c.c", "c.c"),
            ("a/../c.c", "c.c"),
        ] {
            assert_eq!(normal(path), expected, "{path}");
        }
    }

    #[test]
    fn names_match_by_whole_parts() {
        let files = Files { names: ["/a/b/c.c", "/a/xc.c", "", "/a/b/c.c"].map(str::to_string).to_vec() };
        for (wanted, expected) in [
            ("c.c", vec![("/a/b/c.c", vec![0, 3])]),
            ("b/c.c", vec![("/a/b/c.c", vec![0, 3])]),
            ("/a/b/c.c", vec![("/a/b/c.c", vec![0, 3])]),
            ("/c.c", vec![("/a/b/c.c", vec![0, 3])]),
            ("xc.c", vec![("/a/xc.c", vec![1])]),
            ("", vec![]),
        ] {
            assert_eq!(files.matching(wanted).into_iter().collect::<Vec<_>>(), expected, "{wanted}");
        }
    }
}
