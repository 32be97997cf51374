//! The cost of reading a program: time of each step, sizes of caches, and the process's peak of memory.
//!
//! `cargo run --release -p trimtab-symbols --example figures -- FILE [DEBUG_FILE] [FILE:LINE]`
//!
//! Next: the crate's documentation for what the steps are.

use std::time::Instant;
use trimtab_symbols::Image;
use trimtab_symbols::dwarf::{Index, Program, Sections, Types};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("name a program")?;
    let bytes = std::fs::read(path)?;
    println!("{path}: {:.1} MB, peak {} MB after reading", bytes.len() as f64 / 1e6, peak_mb());
    let image = step("image parsed", || Image::parse(&bytes))?;
    println!("  {} functions, {} objects, {} slots", image.functions.len(), image.objects.len(), image.slots.len());
    let cache = step("image to cache", || image.to_cache());
    println!("  {:.1} MB", cache.len() as f64 / 1e6);
    step("image from cache", || Image::from_cache(&cache))?;
    let debug = arguments.get(1).filter(|argument| !argument.contains(':')).map(std::fs::read).transpose()?;
    let sections = step("sections unpacked", || match &debug {
        Some(debug) => Sections::of_debug_file(debug, &image),
        None => Sections::of(&bytes),
    })?;
    let program = step("units listed", || Program::open(&sections));
    if let Some((file, line)) = arguments.last().and_then(|argument| argument.rsplit_once(':')) {
        let found = step("line found", || program.code_of_line(file, line.parse().unwrap_or(1)));
        println!("  {found:x?}");
        step("line found again", || program.code_of_line(file, line.parse().unwrap_or(1))).ok();
    }
    let index = step("index made", || program.index());
    let cache = step("index to cache", || index.to_cache());
    println!("  {:.1} MB, peak {} MB", cache.len() as f64 / 1e6, peak_mb());
    let again = step("index from cache", || Index::from_cache(&cache))?;
    let again = step("opened with it", || Program::open_with(&sections, again));
    let mut types = Types::default();
    let main = step("main found", || again.functions_named("main"));
    for id in main {
        let main = step("main read", || again.function(id, &mut types))?;
        println!("  {} at {:x?}, {} parameters", main.full_name, main.entry, main.parameters.len());
    }
    println!("peak {} MB; problems: {:?} {:?} {:?}", peak_mb(), image.problems, program.problems, index.problems);
    Ok(())
}

fn step<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let outcome = work();
    println!("{name}: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    outcome
}

fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.split_whitespace().next()).and_then(|kb| kb.parse::<u64>().ok());
    kb.unwrap_or(0) / 1024
}
