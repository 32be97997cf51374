//! How much of a real program could be probed, and why not the rest: `coverage FILE...`.
//!
//! Functions come from symbols and from unwind entries, cold fragments are joined to theirs, landing pads and
//! stored labels are supplied, and every function of the file is planned. Then every direct branch of the file is
//! held against every patch: none may lead into one. `--refused` lists each refusal, `--only PREFIX` limits the
//! table to some names. Next: `src/site.rs` for the reasons.

#[path = "coverage/image.rs"]
mod image;

use image::{Bounds, Image};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trimtab_x86::{
    Analysis, ClassifyJump, CodeRange, Exit, ExitKind, FunctionCode, FunctionSites, JumpForm, JumpTarget, Refusal,
    Site, SiteKind, Springboards, analyse, function_sites, offer_padding,
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
    for file in files {
        let bytes = std::fs::read(&file)?;
        survey(&file, &Image::parse(&bytes)?, &options);
    }
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
    ranges: Vec<Range<u64>>,
    analysis: Result<Analysis, Refusal>,
    sites: Option<FunctionSites>,
}

/// Rounds of joining fragments to a function.
const FRAGMENT_ROUNDS_MAX: usize = 8;

fn survey(file: &str, image: &Image<'_>, options: &Options) {
    let started = std::time::Instant::now();
    let mut functions: Vec<Planned> = image.functions().map(|bounds| analyse_whole(image, bounds)).collect();
    let fragments: BTreeSet<u64> =
        functions.iter().flat_map(|function| function.ranges.iter().skip(1)).map(|range| range.start).collect();
    functions.retain(|function| function.bounds.is_named || !fragments.contains(&function.bounds.range.start));
    let mut springboards = Springboards::new();
    for function in &functions {
        if let Ok(analysis) = &function.analysis {
            with_code(image, function, |code| offer_padding(code, analysis, &mut springboards));
        }
    }
    for function in &mut functions {
        let Ok(analysis) = &function.analysis else { continue };
        function.sites = Some(with_code(image, function, |code| function_sites(code, analysis, &mut springboards)));
    }
    let planned_in = started.elapsed();
    println!("{file}: {} functions planned in {:.2} s", functions.len(), planned_in.as_secs_f64());
    Table::of(&functions, options, 0).print("all");
    Table::of(&functions, options, 16).print("16 bytes and more");
    println!("  branches into patches: {}", branches_into_patches(image, &functions));
    if options.list_refused {
        list_refused(&functions, options);
    }
}

fn analyse_whole(image: &Image<'_>, bounds: Bounds) -> Planned {
    let mut planned = Planned {
        ranges: vec![bounds.range.clone()],
        analysis: Err(Refusal::BadRanges { entry: bounds.range.start }),
        sites: None,
        bounds,
    };
    for _ in 0..FRAGMENT_ROUNDS_MAX {
        let classify = Classify(image);
        planned.analysis = with_code(image, &planned, |code| analyse(code, image, &classify));
        let Ok(analysis) = &planned.analysis else { break };
        // A frame still there, or a target in the middle, tells of a part of the same function.
        let parts = analysis.external_jumps.iter().filter_map(|jump| {
            let range = image.range_at(jump.target)?;
            (range.start != jump.target || jump.stack_depth.is_some_and(|depth| depth != 0)).then_some(range)
        });
        let found = parts.chain(analysis.fragments.iter().cloned());
        let new: Vec<Range<u64>> = found.filter(|range| !planned.ranges.contains(range)).collect();
        if new.is_empty() {
            break;
        }
        for range in new {
            if !planned.ranges.contains(&range) {
                planned.ranges.push(range);
            }
        }
    }
    planned
}

fn with_code<T>(image: &Image<'_>, function: &Planned, run: impl FnOnce(&FunctionCode<'_>) -> T) -> T {
    let landing_pads = image.landing_pads(&function.ranges);
    let other_entries = image.stored_labels(&function.ranges);
    let outside_branches = image.outside_branches(&function.ranges);
    let ranges = function.ranges.iter().map(|range| CodeRange {
        addr: range.start,
        bytes: image.text(range.clone()),
        after: image.text(range.end..image.next_start(range.end)),
    });
    run(&FunctionCode {
        entry: function.bounds.range.start,
        ranges: ranges.collect(),
        landing_pads: &landing_pads,
        other_entries: &other_entries,
        outside_branches: &outside_branches,
    })
}

struct Classify<'a, 'b>(&'a Image<'b>);

impl ClassifyJump for Classify<'_, '_> {
    fn classify(&self, target: u64) -> JumpTarget {
        // What has neither symbol nor unwind entry is a stub of the linker.
        let Some(range) = self.0.range_at(target) else { return JumpTarget::TailCall };
        match self.0.is_fragment(&range) {
            true => JumpTarget::Fragment(range),
            false if self.0.is_named(target) => JumpTarget::TailCall,
            false => JumpTarget::Unknown,
        }
    }
}

#[derive(Default)]
struct Table {
    functions: usize,
    entry: usize,
    rets: usize,
    exits: usize,
    both: usize,
    forms: BTreeMap<&'static str, usize>,
    exits_total: usize,
    exits_sited: usize,
    refused_entry: BTreeMap<&'static str, usize>,
    refused_exit: BTreeMap<&'static str, usize>,
    unresolved: usize,
}

impl Table {
    fn of(functions: &[Planned], options: &Options, bytes_min: u64) -> Table {
        let mut table = Table::default();
        for function in functions {
            let size = function.bounds.range.end - function.bounds.range.start;
            if size >= bytes_min && function.bounds.name.starts_with(&options.only) {
                table.add(function);
            }
        }
        table
    }

    fn add(&mut self, function: &Planned) {
        self.functions += 1;
        let (analysis, sites) = match (&function.analysis, &function.sites) {
            (Ok(analysis), Some(sites)) => (analysis, sites),
            (Err(refusal), _) => return *self.refused_entry.entry(refusal.label()).or_default() += 1,
            _ => return,
        };
        self.unresolved += usize::from(!analysis.unresolved_indirect.is_empty());
        match &sites.entry {
            Ok(site) => {
                self.entry += 1;
                *self.forms.entry(form(site)).or_default() += 1;
            }
            Err(refusal) => *self.refused_entry.entry(refusal.label()).or_default() += 1,
        }
        for (_, site) in &sites.exits {
            match site {
                Ok(site) => *self.forms.entry(form(site)).or_default() += 1,
                Err(refusal) => *self.refused_exit.entry(refusal.label()).or_default() += 1,
            }
        }
        self.exits_total += sites.exits.len();
        self.exits_sited += sites.exits.iter().filter(|(_, site)| site.is_ok()).count();
        let is_ret = |exit: &Exit| matches!(exit.kind, ExitKind::Ret { .. });
        let all = sites.exits.iter().all(|(_, site)| site.is_ok());
        self.rets += usize::from(sites.exits.iter().all(|(exit, site)| site.is_ok() || !is_ret(exit)));
        self.exits += usize::from(all);
        self.both += usize::from(all && sites.entry.is_ok());
    }

    fn print(&self, what: &str) {
        let share = |count: usize| 100.0 * count as f64 / self.functions.max(1) as f64;
        println!(
            "  {what}: {} functions; entry {:.2}%, all rets {:.2}%, all exits {:.2}%, entry and all exits {:.2}%; \
             {} of {} exits; {} with unresolved jumps",
            self.functions,
            share(self.entry),
            share(self.rets),
            share(self.exits),
            share(self.both),
            self.exits_sited,
            self.exits_total,
            self.unresolved
        );
        println!("    forms {:?}", self.forms);
        println!("    refused at entry {:?}", self.refused_entry);
        println!("    refused at exit {:?}", self.refused_exit);
    }
}

fn form(site: &Site) -> &'static str {
    match (site.kind, site.jump) {
        (SiteKind::Entry, JumpForm::Near5) => "entry near",
        (SiteKind::Entry, JumpForm::Short2 { .. }) => "entry short",
        (SiteKind::Exit(_), JumpForm::Near5) => "exit near",
        (SiteKind::Exit(_), JumpForm::Short2 { .. }) => "exit short",
        (SiteKind::Whole(_), JumpForm::Near5) => "whole near",
        (SiteKind::Whole(_), JumpForm::Short2 { .. }) => "whole short",
    }
}

/// Direct branches and calls anywhere in the file that lead into displaced or overwritten bytes.
fn branches_into_patches(image: &Image<'_>, functions: &[Planned]) -> usize {
    let mut patches: BTreeMap<u64, u64> = BTreeMap::new();
    for sites in functions.iter().filter_map(|function| function.sites.as_ref()) {
        let exits = sites.exits.iter().filter_map(|(_, site)| site.as_ref().ok());
        for site in exits.chain(sites.entry.as_ref().ok()) {
            patches.insert(site.at, site.overwritten.end.max(site.displaced.end));
            if let JumpForm::Short2 { via } = site.jump {
                // One byte less, so that the springboard's first byte counts as inside too.
                patches.insert(via - 1, via + 5);
            }
        }
    }
    let is_inside =
        |target: u64| patches.range(..target).next_back().is_some_and(|(start, end)| *start < target && target < *end);
    let mut count = 0;
    for (at, target) in image.direct_branches() {
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
        match (&function.analysis, &function.sites) {
            (Err(refusal), _) => println!("{name}: all: {refusal}"),
            (_, Some(sites)) => {
                if let Err(refusal) = &sites.entry {
                    println!("{name}: entry: {refusal}");
                }
                for (exit, site) in &sites.exits {
                    if let Err(refusal) = site {
                        println!("{name}: exit {:#x}: {refusal}", exit.at);
                    }
                }
            }
            _ => {}
        }
    }
}
