//! Targets of the fuzzer, and the table of them.
//!
//! Next: `targets` for each.

use crate::hostile::Target;
use crate::targets::{
    answer, cache, code, debug, descriptor, elf, filter, frames, joblog, mapped, memory, minidebug, names, parts,
    patched, plans, planted, relocate, script, series, sites, tables, talk, wire,
};
use anyhow::{Result, bail};

/// Makes a target.
type Make = fn() -> Box<dyn Target>;

const TABLE: &[(&str, Make)] = &[
    ("elf", || Box::new(elf::Elf)),
    ("minidebug", || Box::new(minidebug::MiniDebug)),
    ("frames", || Box::new(frames::Frames)),
    ("dwarf", || Box::new(debug::Debug)),
    ("cache", || Box::new(cache::Cache)),
    ("names", || Box::new(names::Names)),
    ("joblog", || Box::new(joblog::JobLog)),
    ("plans", || Box::new(plans::Plans)),
    ("series", || Box::new(series::SeriesOfNumbers)),
    ("script", || Box::new(script::Script)),
    ("code", || Box::new(code::Code::new())),
    ("sites", || Box::new(sites::Sites)),
    ("relocate", || Box::new(relocate::Relocate::new())),
    ("patched", || Box::new(patched::Patched::new())),
    ("descriptor", || Box::new(descriptor::Descriptor)),
    ("wire", || Box::new(wire::Wire)),
    ("talk", || Box::new(talk::Talk)),
    ("filter", || Box::new(filter::Filter)),
    ("parts", || Box::new(parts::PartsOfWindows)),
    ("memory", || Box::new(memory::SharedMemory::new())),
    ("mapped", || Box::new(mapped::Mapped)),
    ("answer", || Box::new(answer::Answer)),
    ("tables", || Box::new(tables::Tables)),
];

/// The names of all targets.
pub const NAMES: [&str; TABLE.len()] = names();

/// A target with faults on purpose, so that it can be seen that faults are found.
pub const PLANTED: &str = "planted";

const fn names() -> [&'static str; TABLE.len()] {
    let mut names = [""; TABLE.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = TABLE[at].0;
        at += 1;
    }
    names
}

/// The target of this name.
///
/// # Errors
/// When there is none.
pub fn target(name: &str) -> Result<Box<dyn Target>> {
    if name == PLANTED {
        return Ok(Box::new(planted::Planted));
    }
    match TABLE.iter().find(|(known, _)| *known == name) {
        Some((_, make)) => Ok(make()),
        None => bail!("no target `{name}`; there are: {}", NAMES.join(", ")),
    }
}
