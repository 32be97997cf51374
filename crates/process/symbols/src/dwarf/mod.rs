//! The facts in a program's debugging information (DWARF 2 to 5): source lines, functions with their parameters and
//! local variables, types, global variables, and what was inlined where.
//!
//! [`Sections::of`] unpacks the sections of a file's bytes; [`Program::open`] reads little more than the list of units.
//! Everything else is read when it is first asked for: line tables unit by unit, names in one pass over all entries
//! ([`Index`], which can be cached). Answers are this module's own types, which borrow nothing:
//!
//! - a place in the source: [`Program::code_of_line`], [`Program::line_at`];
//! - a function: [`Program::functions_named`] or [`Program::function_at`], then [`Program::function`];
//! - what was inlined: [`Program::inlined_copies`], [`Program::inlined_at`];
//! - variables: [`Program::variables_at`] for those visible at an address, [`Program::variables_named`] and
//!   [`Program::variable`] for global and static ones;
//! - types: [`Program::type_named`], and [`Types`] which collects all types of the answers above.
//!
//! ```
//! use trimtab_symbols::dwarf::{Program, Sections, Types};
//! let bytes = std::fs::read("/proc/self/exe")?;
//! let sections = Sections::of(&bytes)?;
//! let program = Program::open(&sections);
//! let mut types = Types::default();
//! for id in program.functions_named("main") {
//!     let main = program.function(id, &mut types)?;
//!     println!("{} at {:?}", main.full_name, main.entry);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Next: [`Program`] below, `units` for how entries are read.

mod abi;
mod blocks;
mod error;
mod expression;
mod function;
mod index;
mod lines;
mod names;
mod place;
mod read_types;
mod sections;
mod type_names;
mod types;
mod units;
mod variable;

pub use abi::Signature;
pub use blocks::{InlinedCall, SourcePlace};
pub use error::LookupError;
pub use expression::{BinaryOperator, Expression, UnaryOperator};
pub use function::Function;
pub use index::Index;
#[doc(hidden)]
pub use index::seal_index;
pub use lines::{LineCode, LinePlace};
pub use place::{Piece, Place, PlaceInRange};
pub use sections::Sections;
pub use types::{
    Base, BitField, Bound, Dimension, Dynamic, Encoding, Enumerator, Member, MemberOffset, Qualifier, RecordKind, Type,
    TypeId, TypeKind, Types,
};
pub use variable::{Parameter, Variable};

use crate::Machine;
use std::ops::Range;
use std::sync::OnceLock;
use units::Units;

/// An entry of the debugging information: a function, a variable, a type, or a copy of an inlined function. Meaningful
/// with the [`Program`] it came from, and with any other one of the same sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct EntryId(pub(crate) u32);

/// Files of split units that are named at most.
const FILES_ELSEWHERE_MAX: usize = 3;

/// The debugging information of one file, ready to be asked.
pub struct Program<'a> {
    pub(crate) units: Units<'a>,
    machine: Machine,
    code: Vec<Range<u64>>,
    supplementary: Option<String>,
    index: OnceLock<Index>,
    lines: lines::Lines,
    blocks: blocks::Blocks,
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
            lines: lines::Lines::default(),
            blocks: blocks::Blocks::new(count),
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
