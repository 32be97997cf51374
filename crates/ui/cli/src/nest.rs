//! `loops`: the nest of the program's loops that are running, how often each is passed, and which of them a window would
//! take for its iteration.
//!
//! Next: `trimtab-measure`'s `NestSampler` for the stacks, `trimtab-window`'s `choose_loop` for the rule, `trimtab-script`'s
//! `CountedLoops` for the passes; docs/loops.md for the shape of the JSON.

use crate::arguments::LoopsOptions;
use crate::engine::change;
use crate::exit_code::{DONE, PARTIAL};
use crate::nest_shown::FoundLoops;
use crate::progress::Terminal;
use crate::{departed, nest_shown, output, probe};
use anyhow::{Context as _, bail};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use trimtab_engine::Ends;
use trimtab_measure::{NestSampler, has_static_mpi, script_name};
use trimtab_script::{CountedLoops, LoopCount, LoopPoint, Summary, Target, line_at};
use trimtab_session::ImageCache;
use trimtab_track::{ProcFs, find_job_in};
use trimtab_types::{FileAddr, Pid};
use trimtab_window::{Bursts, Counted, LoopChoice, NEST_SECONDS, Nest, NestLoop, Passes, choose_loop};

/// Between two looks at stacks, in turn: never in step with the program for long.
const LOOK_EVERY_MS: [u64; 7] = [23, 31, 27, 41, 29, 37, 19];

impl FoundLoops {
    /// The loop as a script names it.
    pub fn point(&self, found: &NestLoop) -> LoopPoint {
        let module = self.sampler.module(found.function);
        let witness = self.sampler.witness_points(&self.nest, found).unwrap_or_default();
        LoopPoint { function: script_name(module, found.function.start), number: found.number.clone(), witness }
    }

    /// The source line of the loop: that of its way back, which compilers give the test and the step of a loop; what stands
    /// first in its body may have come from another function.
    pub fn line(&self, found: &NestLoop) -> Option<String> {
        let (modules, number) = self.sampler.modules_of(found.function);
        let line = |at: &FileAddr| line_at(modules, modules.modules[number].bias.to_proc(*at));
        found.backs.iter().chain([&found.header]).find_map(line)
    }
}

/// `trimtab loops PID|JOB`.
pub fn show(options: &LoopsOptions, target: &str, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let pid = match target.parse() {
        Ok(pid) => Pid(pid),
        Err(_) => probe::process_of(target, store)
            .with_context(|| format!("`{target}` is no process id and no job that runs"))?,
    };
    let (targets, elsewhere) = targets_of(pid, options.process)?;
    trimtab_engine::check_descriptors(targets.len())?;
    let pids: Vec<Pid> = targets.iter().map(|target| target.pid).collect();
    let mut change = change("loops", &pids)?;
    let ends = Ends::watch(pids.into_iter());
    let found = look_and_count(options, targets, elsewhere);
    change.restored();
    let mut found = found?;
    let text = if options.json {
        serde_json::to_string_pretty(&nest_shown::as_json(&found))?
    } else {
        nest_shown::text(&found)
    };
    output::print_text(&text)?;
    let code = if found.choice.is_some() { DONE } else { PARTIAL };
    Ok(departed::told(&ends.with(std::mem::take(&mut found.cost.departed)), code))
}

/// The ranks of the process's job on this machine, and how many are elsewhere; or the process alone.
fn targets_of(pid: Pid, only_process: bool) -> anyhow::Result<(Vec<Target>, usize)> {
    let alone = vec![Target { pid, rank: None, ranks: None }];
    if only_process {
        return Ok((alone, 0));
    }
    let job = match find_job_in(&ProcFs::new(), pid, &has_static_mpi) {
        Ok(job) => job,
        Err(trimtab_track::Error::NotMpi { .. }) => return Ok((alone, 0)),
        Err(error) => {
            return Err(anyhow::Error::from(error).context(
                "loops are looked for in ranks of this machine; run it where they run, with the process id of one",
            ));
        }
    };
    let target = |rank: &trimtab_track::RankProcess| Target { pid: rank.pid, rank: Some(rank.rank.0), ranks: job.size };
    let targets: Vec<Target> = job.ranks.iter().map(target).collect();
    if targets.is_empty() {
        bail!("no rank of the job of process {pid} is on this machine; run it where one is");
    }
    Ok((targets, job.missing_ranks().len()))
}

fn look_and_count(options: &LoopsOptions, targets: Vec<Target>, elsewhere: usize) -> anyhow::Result<FoundLoops> {
    let terminal = Terminal::new()?;
    let cache = ImageCache::of_user();
    if options.seccomp_ok {
        targets.iter().for_each(|target| trimtab_os::trust_filters(target.pid));
    }
    terminal.say("reading symbols".to_owned());
    let of_rank = |target: &Target| (target.rank.unwrap_or_default(), target.pid);
    let mut sampler = NestSampler::new(&targets.iter().map(of_rank).collect::<Vec<_>>(), &cache)?;
    sampler.await_start();
    let begun = Instant::now();
    for look in 0..options.samples as usize {
        if terminal.is_interrupted() {
            bail!("interrupted; nothing was changed");
        }
        terminal.say(format!("looking at stacks, {} of {}", look + 1, options.samples));
        sampler.look()?;
        std::thread::sleep(Duration::from_millis(LOOK_EVERY_MS[look % LOOK_EVERY_MS.len()]));
    }
    let (sampled_s, nest) = (begun.elapsed().as_secs_f64(), sampler.nest());
    let (counts, cost, choice) = (Vec::new(), Summary::default(), None);
    let mut found = FoundLoops { targets, elsewhere, sampler, sampled_s, nest, counts, counted_s: 0.0, cost, choice };
    if !found.nest.loops.is_empty() {
        count(&mut found, options, &terminal, &cache)?;
    }
    terminal.finish();
    Ok(found)
}

/// Counts passes until the rule has decided, and 2 s at least.
fn count(
    found: &mut FoundLoops,
    options: &LoopsOptions,
    terminal: &Terminal,
    cache: &ImageCache,
) -> anyhow::Result<()> {
    let points = found.nest.loops.iter().map(|one| found.point(one)).collect();
    let mut counting = CountedLoops::start(points, found.targets.clone(), options.seccomp_ok, cache)?;
    let begun = Instant::now();
    let mut bursts = Vec::new();
    while counting.wait()? && !terminal.is_interrupted() {
        let elapsed_s = counting.elapsed().as_secs_f64();
        terminal.say(format!("counting passes, {elapsed_s:.1} s"));
        let counted = looked_at(least_passed(&found.nest, &counting.counts()), &mut bursts, elapsed_s);
        let is_early = elapsed_s < NEST_SECONDS.min(options.max_seconds);
        if !is_early && choose_loop(&counted, elapsed_s, options.max_seconds) != LoopChoice::Wait {
            break;
        }
    }
    found.counted_s = counting.elapsed().as_secs_f64().min(begun.elapsed().as_secs_f64());
    (found.counts, found.cost) = counting.finish();
    let is_usable = found.nest.interpreter().is_none();
    let counted = looked_at(least_passed(&found.nest, &found.counts), &mut bursts, found.counted_s);
    let decided = choose_loop(&counted, f64::INFINITY, options.max_seconds);
    found.choice = match decided {
        LoopChoice::Take(index) if is_usable => Some(index),
        _ => None,
    };
    Ok(())
}

/// Each loop on the rank that has passed it least.
fn least_passed(nest: &Nest, counts: &[LoopCount]) -> Vec<Counted> {
    let least = |(one, count): (&NestLoop, &LoopCount)| {
        let of_ranks = count.ranks.values().map(|rank| Passes { passes: rank.passes, with_mpi: rank.with_mpi });
        let passes = of_ranks.min_by_key(|rank| rank.passes).filter(|_| count.not_counted.is_none());
        // While the witness is not passed, the loop is not either.
        let is_unseen = count.witnessed == Some(0);
        let is_hidden = count.not_counted.is_some() && !count.is_too_fast && !is_unseen;
        let passes = passes.or(is_unseen.then(Passes::default));
        Counted { passes, is_seen_in_mpi: one.is_seen_in_mpi, is_hidden, is_in_bursts: false, is_around_left: false }
    };
    nest.loops.iter().zip(counts).map(least).collect()
}

/// The same, and which of them come in bursts, after one look more.
fn looked_at(mut counted: Vec<Counted>, bursts: &mut Vec<Bursts>, seconds: f64) -> Vec<Counted> {
    bursts.resize(counted.len(), Bursts::default());
    for (one, bursts) in counted.iter_mut().zip(bursts) {
        bursts.look(seconds, one.passes.map_or(0, |counted| counted.passes));
        one.is_in_bursts = bursts.are_there();
    }
    counted
}
