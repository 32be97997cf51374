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
//! Next: [`Program`], `units` for how entries are read.

mod abi;
mod blocks;
mod error;
mod expression;
mod function;
mod index;
mod line_tables;
mod lines;
mod names;
mod place;
mod program;
mod read_types;
mod sections;
mod type_names;
mod types;
mod units;
mod variable;

pub use abi::Signature;
pub use blocks::{InlinedCall, Scope, SourcePlace};
pub use error::LookupError;
pub use expression::{BinaryOperator, Expression, UnaryOperator, ValueLocation, ValuePiece};
pub use function::Function;
pub use index::Index;
#[doc(hidden)]
pub use index::seal_index;
pub use lines::{LineCode, LinePlace};
pub use place::PlaceInRange;
pub use program::{EntryId, Program};
pub use sections::Sections;
pub use types::{
    Base, BitField, Bound, Dimension, DwarfMember, DwarfType, Dynamic, Encoding, Enumerator, MemberOffset, Qualifier,
    RecordKind, TypeId, TypeKind, Types,
};
pub use variable::{Parameter, Variable};
