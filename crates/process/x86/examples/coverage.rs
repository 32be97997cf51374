//! How much of a real program could be probed, and why not the rest: `coverage FILE...`.
//!
//! Functions come from symbols and from unwind entries, cold fragments are joined to theirs, landing pads and
//! stored labels are supplied, and every function of the file is planned, each with nothing but its own bytes and
//! padding, on all processors. Then every direct branch of the file is held against every patch: none may lead into
//! one. `--refused` lists each refusal, `--only PREFIX` limits the table to some names. The last line sums all files.
//! Next: `src/site.rs` for the reasons.

#[path = "coverage/image.rs"]
mod image;
#[path = "coverage/table.rs"]
mod table;

use image::{Bounds, Image};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use table::Table;
use trimtab_types::ProcAddr;
use trimtab_x86::{
    ClassifyJump, CodeRange, FunctionCode, FunctionSites, JumpForm, JumpTarget, Refusal, analyse, own_sites,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    let mut files = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--refused" => options.list_refused = true,
            "--only" => options.only = arguments.next().unwrap_or_default(),
            file => files.push(file.to_owned()),
        }
    }
    let mut total = Table::default();
    for file in files {
        let bytes = std::fs::read(&file)?;
        let started = std::time::Instant::now();
        let image = Image::parse(&bytes)?;
        println!("{file}: read in {:.2} s", started.elapsed().as_secs_f64());
        total.join(&survey(&image, &options));
    }
    total.print("all files, 16 bytes and more");
    Ok(())
}

#[derive(Default)]
struct Options {
    list_refused: bool,
    only: String,
}

/// One function as planned.
struct Planned {
    bounds: Bounds,
    /// Cold fragments.
    fragments: Vec<Range<u64>>,
    /// Indirect jumps that could not be followed.
    unresolved: usize,
    sites: Result<FunctionSites, Refusal>,
}

/// Rounds of joining fragments to a function.
const FRAGMENT_ROUNDS_MAX: usize = 8;
/// Functions that a thread takes at once.
const BATCH: usize = 64;

fn survey(image: &Image<'_>, options: &Options) -> Table {
    let started = std::time::Instant::now();
    let mut functions = plan_all(image);
    let fragments: BTreeSet<u64> =
        functions.iter().flat_map(|function| &function.fragments).map(|range| range.start).collect();
    functions.retain(|function| function.bounds.is_named || !fragments.contains(&function.bounds.range.start));
    println!("  {} functions planned in {:.2} s", functions.len(), started.elapsed().as_secs_f64());
    let table = |bytes_min: u64| {
        let mut table = Table::default();
        let has_size = |function: &&Planned| function.bounds.range.end - function.bounds.range.start >= bytes_min;
        let is_asked = |function: &&Planned| function.bounds.name.starts_with(&options.only);
        functions.iter().filter(has_size).filter(is_asked).for_each(|function| table.add(function));
        table
    };
    table(0).print("all");
    let long = table(16);
    long.print("16 bytes and more");
    println!("  branches into patches: {}", branches_into_patches(image, &functions));
    if options.list_refused {
        list_refused(&functions, options);
    }
    long
}

fn plan_all(image: &Image<'_>) -> Vec<Planned> {
    let all: Vec<Bounds> = image.functions().collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut planned = Vec::new();
        loop {
            let start = next.fetch_add(BATCH, Relaxed);
            if start >= all.len() {
                return planned;
            }
            let batch = &all[start..(start + BATCH).min(all.len())];
            planned.extend(batch.iter().map(|bounds| plan_one(image, bounds.clone())));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut functions: Vec<Planned> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("planning does not panic")).collect()
    });
    functions.sort_by_key(|function| function.bounds.range.start);
    functions
}

fn plan_one(image: &Image<'_>, bounds: Bounds) -> Planned {
    let mut ranges = vec![bounds.range.clone()];
    let mut unresolved = 0;
    let mut sites = Err(Refusal::BadRanges { entry: ProcAddr(bounds.range.start) });
    for _ in 0..FRAGMENT_ROUNDS_MAX {
        let [landing_pads, stored_labels, outside_branches] =
            [image.landing_pads(&ranges), image.stored_labels(&ranges), image.outside_branches(&ranges)]
                .map(|addresses| addresses.into_iter().map(ProcAddr).collect::<Vec<_>>());
        let code_ranges = ranges.iter().map(|range| CodeRange {
            addr: ProcAddr(range.start),
            bytes: image.text(range.clone()),
            after: image.text(range.end..image.next_start(range.end)),
        });
        let code = FunctionCode {
            entry: ProcAddr(bounds.range.start),
            ranges: code_ranges.collect(),
            landing_pads: &landing_pads,
            other_entries: &stored_labels,
            outside_branches: &outside_branches,
            restartable: &[],
            faults_stay: false,
        };
        let analysis = match analyse(&code, image, &Classify(image)) {
            Ok(analysis) => analysis,
            Err(refusal) => {
                sites = Err(refusal);
                break;
            }
        };
        // A frame still there, or a target in the middle, tells of a part of the same function.
        let parts = analysis.external_jumps.iter().filter_map(|jump| {
            let range = image.range_at(jump.target.0)?;
            (range.start != jump.target.0 || jump.stack_depth.is_some_and(|depth| depth != 0)).then_some(range)
        });
        let found: BTreeSet<(u64, u64)> =
            parts.chain(analysis.fragments.iter().map(plain)).map(|range| (range.start, range.end)).collect();
        let mut new: Vec<Range<u64>> = found.into_iter().map(|(start, end)| start..end).collect();
        new.retain(|range| !ranges.contains(range));
        if new.is_empty() {
            unresolved = analysis.unresolved_indirect.len();
            sites = Ok(own_sites(&code, &analysis));
            break;
        }
        ranges.extend(new);
    }
    Planned { bounds, fragments: ranges.split_off(1), unresolved, sites }
}

/// The file is taken for one that is loaded where it says.
fn plain(range: &Range<ProcAddr>) -> Range<u64> {
    range.start.0..range.end.0
}

struct Classify<'a, 'b>(&'a Image<'b>);

impl ClassifyJump for Classify<'_, '_> {
    fn classify(&self, ProcAddr(target): ProcAddr) -> JumpTarget {
        // Code that has neither symbol nor unwind entry is a stub of the linker.
        let Some(range) = self.0.range_at(target) else { return JumpTarget::TailCall };
        match self.0.is_fragment(&range) {
            true => JumpTarget::Fragment(ProcAddr(range.start)..ProcAddr(range.end)),
            false if self.0.is_named(target) => JumpTarget::TailCall,
            false => JumpTarget::Unknown,
        }
    }
}

/// Direct branches and calls anywhere in the file that lead into displaced or overwritten bytes.
fn branches_into_patches(image: &Image<'_>, functions: &[Planned]) -> usize {
    let mut patches: BTreeMap<u64, u64> = BTreeMap::new();
    for sites in functions.iter().filter_map(|function| function.sites.as_ref().ok()) {
        let exits = sites.exits.iter().filter_map(|(_, site)| site.as_ref().ok());
        for site in exits.chain(sites.entry.as_ref().ok()) {
            patches.insert(site.at.0, site.overwritten.end.max(site.displaced.end).0);
            if let Some(carrier) = &site.carrier {
                patches.insert(carrier.covered().start.0, carrier.covered().end.0);
            } else if let JumpForm::Short2 { via } = site.jump {
                // One byte less, so that the springboard's first byte counts as inside too.
                patches.insert(via.0 - 1, via.0 + 5);
            }
        }
    }
    let is_inside =
        |target: u64| patches.range(..target).next_back().is_some_and(|(start, end)| *start < target && target < *end);
    let mut count = 0;
    for (ProcAddr(at), ProcAddr(target)) in image.direct_branches() {
        if is_inside(target) {
            println!("    {at:#x} leads into the patch around {target:#x}");
            count += 1;
        }
    }
    count
}

fn list_refused(functions: &[Planned], options: &Options) {
    for function in functions.iter().filter(|function| function.bounds.name.starts_with(&options.only)) {
        let name = format!("{:#x} {}", function.bounds.range.start, function.bounds.name);
        match &function.sites {
            Err(refusal) => println!("{name}: all: {refusal}"),
            Ok(sites) => {
                if let Err(refusal) = &sites.entry {
                    println!("{name}: entry: {refusal}");
                }
                for (exit, site) in &sites.exits {
                    if let Err(refusal) = site {
                        println!("{name}: exit {:#x}: {refusal}", exit.at);
                    }
                }
            }
        }
    }
}
