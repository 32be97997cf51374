//! The debugging information of one file, ready to be asked.
//!
//! Next: `units` for how entries are read; the files that answer: `lines`, `blocks`, `names`, `function`, `variable`, `read_types`.

use super::index::Index;
use super::line_tables::Lines;
use super::sections::Sections;
use super::units::Units;
use crate::Machine;
use std::ops::Range;
use std::sync::OnceLock;

/// An entry of the debugging information: a function, a variable, a type, or a copy of an inlined function. Meaningful
/// with the [`Program`] it came from, and with any other one of the same sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct EntryId(pub(crate) u32);

/// Files of split units that are named at most.
const FILES_ELSEWHERE_MAX: usize = 3;

/// The debugging information of one file, ready to be asked.
pub struct Program<'a> {
    pub(crate) units: Units<'a>,
    pub(super) machine: Machine,
    pub(super) code: Vec<Range<u64>>,
    pub(super) supplementary: Option<String>,
    pub(super) index: OnceLock<Index>,
    pub(super) lines: Lines,
    pub(super) blocks: Blocks,
    /// The parts that could not be read, each with the reason, for the user to see; further lines are in
    /// [`Index::problems`].
    pub problems: Vec<String>,
}

impl<'a> Program<'a> {
    /// Reads the list of units; nothing else until it is asked for.
    pub fn open(sections: &'a Sections<'a>) -> Program<'a> {
        let mut problems = sections.problems.clone();
        let units = Units::open(sections, &mut problems);
        let count = units.count();
        Program {
            units,
            machine: sections.machine,
            code: sections.code.clone(),
            supplementary: sections.supplementary.clone(),
            index: OnceLock::new(),
            lines: Lines::default(),
            blocks: Blocks::new(count),
            problems,
        }
    }

    /// As [`Program::open`], with an index made earlier; one of other sections is not used.
    pub fn open_with(sections: &'a Sections<'a>, index: Index) -> Program<'a> {
        let program = Program::open(sections);
        if index.belongs_to(&program.units) {
            program.index.get_or_init(|| index);
        }
        program
    }

    /// Where each name is; made at the first call, which reads every entry once.
    pub fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::of(&self.units))
    }

    /// Files that hold parts of this debugging information and are not read: the supplementary file of `dwz -m`, and those of
    /// units that were compiled with `-gsplit-dwarf`, the first few.
    pub fn files_elsewhere(&self) -> Vec<String> {
        let split = (0..self.units.count()).filter_map(|index| self.units.split_file(index));
        self.supplementary.iter().cloned().chain(split.take(FILES_ELSEWHERE_MAX)).collect()
    }

    /// The processor architecture.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// True if `addr` lies in memory that may be executed.
    pub(crate) fn is_code(&self, addr: u64) -> bool {
        self.code.iter().any(|range| range.contains(&addr))
    }
}

/// (first address, first one behind, entry or unit), by ascending address.
pub(super) type Spans = Vec<(u64, u64, u32)>;

/// The blocks that were listed so far.
pub(crate) struct Blocks {
    pub(super) units: OnceLock<Spans>,
    pub(super) functions: Vec<OnceLock<Spans>>,
}

impl Blocks {
    pub fn new(units: usize) -> Self {
        Blocks { units: OnceLock::new(), functions: (0..units).map(|_| OnceLock::new()).collect() }
    }
}
