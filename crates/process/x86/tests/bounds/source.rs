//! The blocks and lines of a library's source, as its debugging information has them.

use gimli::{AttributeValue, DebuggingInformationEntry, EndianSlice, LittleEndian, UnitOffset};
use object::{Object, ObjectSection};
use std::collections::BTreeMap;
use std::ops::Range;
use trimtab_x86::{CodeSource, SourceBlock, SourcePosition};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// A library's code as its debugging information tells of it.
#[derive(Default)]
pub struct Sources {
    /// Blocks, outermost first, with their code.
    blocks: Vec<(Vec<Range<u64>>, SourceBlock)>,
    /// Where rows begin; none of them: there is no line from there on.
    rows: BTreeMap<u64, Option<SourcePosition>>,
}

impl Sources {
    pub fn of(elf: &object::File<'_>) -> Sources {
        let section = |id: gimli::SectionId| -> Result<Slice<'_>, gimli::Error> {
            let data = elf.section_by_name(id.name()).and_then(|section| section.data().ok());
            Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section).expect("nothing fails in there");
        let (mut all, mut headers) = (Sources::default(), dwarf.units());
        while let Some(header) = headers.next().expect("a sound file") {
            all.read(&dwarf, &dwarf.unit(header).expect("a sound unit")).expect("sound entries");
        }
        all
    }

    fn read(&mut self, dwarf: &gimli::Dwarf<Slice<'_>>, unit: &gimli::Unit<Slice<'_>>) -> gimli::Result<()> {
        let (mut entries, mut depth) = (unit.entries(), Vec::<Option<usize>>::new());
        while let Some(entry) = entries.next_dfs()? {
            let level = entry.depth() as usize;
            depth.resize(level, None);
            let is_inlined = entry.tag() == gimli::DW_TAG_inlined_subroutine;
            if is_inlined || entry.tag() == gimli::DW_TAG_lexical_block {
                let mut ranges = Vec::new();
                let mut list = dwarf.die_ranges(unit, entry)?;
                while let Some(range) = list.next()? {
                    ranges.push(range.begin..range.end);
                }
                let id = entry.offset().to_debug_info_offset(unit).map_or(0, |offset| offset.0 as u32);
                depth.push(Some(self.blocks.len()));
                self.blocks.push((ranges, SourceBlock { id, is_inlined, variables: Vec::new() }));
            } else {
                if let (gimli::DW_TAG_variable, Some(Some(block))) = (entry.tag(), depth.last()) {
                    self.blocks[*block].1.variables.extend(declared(dwarf, unit, entry)?);
                }
                depth.push(None);
            }
        }
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        let mut rows = program.rows();
        while let Some((header, row)) = rows.next_row()? {
            let column = match row.column() {
                gimli::ColumnType::LeftEdge => 0,
                gimli::ColumnType::Column(column) => column.get() as u32,
            };
            let file = row.file(header).map(|file| name(dwarf, unit, file.path_name())).transpose()?;
            let line = row.line().map(|line| line.get() as u32);
            let position = line.zip(file).map(|(line, file)| SourcePosition { file, line, column });
            self.rows.insert(row.address(), position.filter(|_| !row.end_sequence()));
        }
        Ok(())
    }

    pub fn at(&self, address: u64) -> Option<CodeSource> {
        let position = self.rows.range(..=address).next_back()?.1.clone()?;
        let is_around = |ranges: &[Range<u64>]| ranges.iter().any(|range| range.contains(&address));
        let blocks = self.blocks.iter().filter(|(ranges, _)| is_around(ranges)).map(|(_, block)| block.clone());
        Some(CodeSource { blocks: blocks.collect(), position })
    }
}

fn name(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &gimli::Unit<Slice<'_>>,
    value: AttributeValue<Slice<'_>>,
) -> gimli::Result<String> {
    Ok(dwarf.attr_string(unit, value)?.to_string_lossy().into_owned())
}

/// File and line of a variable, which may be a copy of one of a function that was inlined.
fn declared(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &gimli::Unit<Slice<'_>>,
    entry: &Entry<'_>,
) -> gimli::Result<Option<(String, u32)>> {
    let number = |entry: &Entry<'_>, name| entry.attr_value(name).and_then(|value| value.udata_value());
    let file = |entry: &Entry<'_>| match entry.attr_value(gimli::DW_AT_decl_file) {
        Some(AttributeValue::FileIndex(file)) => Some(file),
        value => value.and_then(|value| value.udata_value()),
    };
    if let Some(AttributeValue::UnitRef(origin)) = entry.attr_value(gimli::DW_AT_abstract_origin) {
        let origin: UnitOffset = origin;
        return declared(dwarf, unit, &unit.entry(origin)?);
    }
    let (Some(file), Some(line)) = (file(entry), number(entry, gimli::DW_AT_decl_line)) else { return Ok(None) };
    let header = unit.line_program.as_ref().map(|program| program.header());
    let Some(file) = header.and_then(|header| header.file(file)) else { return Ok(None) };
    Ok(Some((name(dwarf, unit, file.path_name())?, line as u32)))
}
