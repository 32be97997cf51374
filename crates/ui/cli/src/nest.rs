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
use trimtab_measure::{NestSampler, counted_numbers, has_static_mpi, script_name};
use trimtab_script::{CountedLoops, LoopCount, LoopPoint, Summary, Target, line_at};
use trimtab_session::ImageCache;
use trimtab_track::{ProcFs, find_job_in};
use trimtab_types::{FileAddr, Pid};
use trimtab_window::{Bursts, Counted, InStep, LoopChoice, NEST_SECONDS, Nest, NestLoop, Passes, choose_loop};

/// Between two looks at stacks, in turn: never in step with the program for long.
const LOOK_EVERY_MS: [u64; 7] = [23, 31, 27, 41, 29, 37, 19];

impl FoundLoops {
    /// The loop as a script names it.
    pub fn point(&self, found: &NestLoop) -> LoopPoint {
        let module = self.sampler.module(found.function);
        let witness = self.sampler.witness_points(&self.nest, found).unwrap_or_default();
        let number = self.number_of(found).unwrap_or_else(|| found.number.clone());
        LoopPoint { function: script_name(module, found.function.start), number, witness }
    }

    /// The number by which a loop is counted; `None`: it is counted with another.
    pub fn number_of(&self, one: &NestLoop) -> Option<Vec<u32>> {
        let at =
            self.nest.loops.iter().position(|other| (other.function, &other.number) == (one.function, &one.number));
        at.and_then(|at| self.numbers[at].clone())
    }

    /// True if several loops are counted as this one, of which each rank is in one.
    pub fn is_several(&self, index: usize) -> bool {
        self.numbers[index].as_ref().is_some_and(|number| *number != self.nest.loops[index].number)
    }

    /// The counts of all loops, from those of loops that are counted by themselves.
    fn of_all(&self, counts: Vec<LoopCount>) -> Vec<LoopCount> {
        let mut counts = counts.into_iter();
        let mut one = |(index, number): (usize, &Option<Vec<u32>>)| match number {
            Some(_) => counts.next().unwrap_or_default(),
            None => LoopCount { not_counted: Some(self.counted_with(index)), ..LoopCount::default() },
        };
        self.numbers.iter().enumerate().map(&mut one).collect()
    }

    fn counted_with(&self, index: usize) -> String {
        let part = &self.nest.loops[index];
        let has_it = |one: &NestLoop| one.function == part.function && one.instead.contains(&part.number);
        let whole = self.nest.loops.iter().position(has_it).map_or(0, |at| at + 1);
        format!("each rank is in it or on the other side of a branch, and passes of both are counted as loop {whole}")
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
    let (counts, counted_s, cost, choice) = (Vec::new(), 0.0, Summary::default(), None);
    let numbers = counted_numbers(&nest);
    let out_of_step = Vec::new();
    let mut found = FoundLoops {
        targets,
        elsewhere,
        sampler,
        sampled_s,
        nest,
        numbers,
        out_of_step,
        counts,
        counted_s,
        cost,
        choice,
    };
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
    let counted = found.nest.loops.iter().filter(|one| found.number_of(one).is_some());
    let points = counted.map(|one| found.point(one)).collect();
    let mut counting = CountedLoops::start(points, found.targets.clone(), options.seccomp_ok, cache)?;
    let begun = Instant::now();
    let mut looks = Looks::default();
    while counting.wait()? && !terminal.is_interrupted() {
        let elapsed_s = counting.elapsed().as_secs_f64();
        terminal.say(format!("counting passes, {elapsed_s:.1} s"));
        let counted = looks.look(found, &found.of_all(counting.counts()), elapsed_s);
        let is_early = elapsed_s < NEST_SECONDS.min(options.max_seconds);
        if !is_early && choose_loop(&counted, elapsed_s, options.max_seconds) != LoopChoice::Wait {
            break;
        }
    }
    found.counted_s = counting.elapsed().as_secs_f64().min(begun.elapsed().as_secs_f64());
    let (counts, cost) = counting.finish();
    found.counts = found.of_all(counts);
    found.cost = cost;
    let is_usable = found.nest.interpreter().is_none();
    let counted = looks.look(found, &found.counts, found.counted_s);
    let decided = choose_loop(&counted, f64::INFINITY, options.max_seconds);
    found.choice = match decided {
        LoopChoice::Take(index) if is_usable => Some(index),
        _ => None,
    };
    found.out_of_step = looks.out_of_step(found);
    Ok(())
}

/// The results of looks at the counters of each loop.
#[derive(Debug, Default)]
struct Looks {
    bursts: Vec<Bursts>,
    in_step: Vec<InStep>,
}

impl Looks {
    /// Each loop on the rank that has passed it least, after one look more.
    fn look(&mut self, found: &FoundLoops, counts: &[LoopCount], seconds: f64) -> Vec<Counted> {
        self.bursts.resize(counts.len(), Bursts::default());
        self.in_step.resize(counts.len(), InStep::default());
        let mut counted = least_passed(&found.nest, counts);
        for (index, one) in counted.iter_mut().enumerate() {
            let passes = || counts[index].ranks.values().map(|rank| rank.passes);
            self.bursts[index].look(seconds, one.passes.map_or(0, |counted| counted.passes));
            self.in_step[index].look(passes().min().unwrap_or(0), passes().max().unwrap_or(0));
            one.is_in_bursts = self.bursts[index].are_there();
            one.passes = one.passes.filter(|_| !found.is_several(index) || self.in_step[index].is_seen(seconds));
            // One that is counted with another hides nothing.
            one.is_hidden &= found.numbers[index].is_some();
        }
        counted
    }

    /// Loops that are counted as one, and that ranks do not pass equally often.
    fn out_of_step(&self, found: &FoundLoops) -> Vec<usize> {
        let is_out = |index: &usize| found.is_several(*index) && self.in_step[*index].is_contradicted();
        (0..self.in_step.len()).filter(is_out).collect()
    }
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
