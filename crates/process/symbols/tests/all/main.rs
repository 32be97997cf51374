//! All tests from outside in one program: each of several would be compiled and linked with the same crates again.
//!
//! Next: `programs` for functions by their symbols, `dwarf_c` for what debug information says.

#[path = "../common/ask.rs"]
mod ask;
#[path = "../common/ask_image.rs"]
mod ask_image;
#[path = "../common/mod.rs"]
mod common;

mod cache;
mod dwarf_c;
mod dwarf_hostile;
mod dwarf_languages;
mod dwarf_places;
mod hostile;
mod linkage;
mod own;
mod programs;
mod restartable;
mod shapes;
