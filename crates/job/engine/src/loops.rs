//! The nest of a program's loops that run, how often each is passed, and which of them a window would take for its
//! iteration.
//!
//! Next: `trimtab-measure`'s `NestSampler` for the stacks, `trimtab-window`'s `choose_loop` for the rule, `trimtab-script`'s
//! `CountedLoops` for the passes.

use crate::audited::{Audited, Changed};
use crate::ends::Ends;
use crate::error::Error;
use crate::event::{Event, Stage};
use crate::{Engine, descriptors};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trimtab_measure::{NestSampler, SampledCourse, counted_numbers, courses, dotted, has_static_mpi, script_name};
use trimtab_script::{CountedLoops, LoopCount, LoopPoint, NotCounted, Summary, Target, line_at};
use trimtab_track::{ProcFs, RankProcess, find_job_in};
use trimtab_types::{FileAddr, Pid};
use trimtab_window::{
    Bursts, Counted, InStep, LoopChoice, NEST_SECONDS, Nest, NestLoop, Passes, Unusable, choose_loop,
};

/// Between two looks at stacks, in turn: never in step with the program for long.
const LOOK_EVERY_MS: [u64; 7] = [23, 31, 27, 41, 29, 37, 19];

/// How loops are looked for.
#[derive(Clone, Copy, Debug)]
pub struct LoopsWanted {
    /// Only in the process itself, not in the ranks of its job.
    pub only_process: bool,
    /// Looks at the stack of each rank.
    pub samples: u32,
    /// A third of so many seconds may pass until a loop has been passed three times.
    pub max_seconds: f64,
    /// The job's owner says that its filters of system calls let ours pass, where they can't be read.
    pub seccomp_ok: bool,
}

/// The loops of some processes, as far as they were found out.
#[derive(Debug)]
pub struct FoundLoops {
    /// The processes and their ranks.
    pub targets: Vec<Target>,
    /// Ranks of the job that are on other machines.
    pub elsewhere: usize,
    /// Looks at stacks.
    pub looks: u64,
    /// How long these took together, seconds.
    pub sampled_s: f64,
    /// Stacks that are known from end to end.
    pub stacks_known: usize,
    /// Those of which not all functions are known, by reason.
    pub stacks_unknown: BTreeMap<String, u64>,
    /// The longest time a thread was held for a look, microseconds.
    pub pause_look_us_max: f64,
    /// The loops, outermost first.
    pub loops: Vec<FoundLoop>,
    /// Why loops around are not known or mean nothing, a sentence each.
    pub unusable: Vec<String>,
    /// An interpreter runs the program: its loop is none of the machine's.
    pub is_interpreted: bool,
    /// How long passes were counted, seconds.
    pub counted_s: f64,
    /// The cost of counting.
    pub cost: Summary,
    /// The loop that a window would take.
    pub choice: Option<usize>,
    /// Processes that ended so that trimtab may have harmed them.
    pub ends: Ends,
}

/// A loop that runs.
#[derive(Clone, Debug)]
pub struct FoundLoop {
    /// The function that it is in.
    pub function: String,
    /// The start of that in its file.
    pub function_address: FileAddr,
    /// The name of that file.
    pub module: String,
    /// Its number in the function; together with those in which other ranks are instead, on other sides of a branch, if it is
    /// counted with them.
    pub number: String,
    /// It is counted by itself, neither with others nor as one of them.
    pub is_alone: bool,
    /// It is counted with others, and ranks do not pass them equally often: it is not taken.
    pub is_out_of_step: bool,
    /// The loop as a script names it.
    pub point: String,
    /// Its source line: that of its way back, which compilers give the test and the step of a loop; what stands first in its
    /// body may have come from another function.
    pub line: Option<String>,
    /// The part of the stacks that are in it.
    pub share: f64,
    /// Ranks of which no stack is in it.
    pub ranks_without: Vec<u32>,
    /// Its passes, once they were counted.
    pub count: Option<LoopCount>,
    /// How far it was behind the counting, unless that is known from its passes.
    pub course: SampledCourse,
}

/// The loops that were seen on stacks.
struct Seen<'c> {
    sampler: &'c NestSampler,
    nest: Nest,
    /// How each is counted: by its number, together with those in which other ranks are instead, or (`None`) as one of these.
    numbers: Vec<Option<Vec<u32>>>,
}

impl<'c> Seen<'c> {
    fn of(sampler: &'c NestSampler) -> Self {
        let nest = sampler.nest();
        Seen { sampler, numbers: counted_numbers(&nest), nest }
    }

    fn found(&self, index: usize, passed: &Passed) -> FoundLoop {
        let one = &self.nest.loops[index];
        let (modules, number) = self.sampler.modules_of(one.function);
        let line = |at: &FileAddr| line_at(modules, modules.modules[number].bias.to_proc(*at));
        FoundLoop {
            function: self.sampler.name(one.function),
            function_address: one.function.start,
            module: self.sampler.module(one.function).file_name().to_owned(),
            number: dotted(self.numbers[index].as_ref().unwrap_or(&one.number)),
            is_alone: self.numbers[index].as_ref() == Some(&one.number),
            is_out_of_step: passed.out_of_step.contains(&index),
            point: self.point(index).text(),
            line: one.backs.iter().chain([&one.header]).find_map(line),
            share: one.share,
            ranks_without: one.ranks_without.clone(),
            count: passed.counts.get(index).cloned(),
            course: SampledCourse::NotAsked,
        }
    }

    /// The loop as a script names it.
    fn point(&self, index: usize) -> LoopPoint {
        let one = &self.nest.loops[index];
        let function = script_name(self.sampler.module(one.function), one.function.start);
        let witness = self.sampler.witness_points(&self.nest, one).unwrap_or_default();
        let number = self.numbers[index].clone().unwrap_or_else(|| one.number.clone());
        LoopPoint { function, number, witness }
    }

    /// The loops that are counted, as a script names them.
    fn points(&self) -> Vec<LoopPoint> {
        (0..self.numbers.len()).filter(|index| self.numbers[*index].is_some()).map(|index| self.point(index)).collect()
    }

    /// True if several loops are counted as this one, of which each rank is in one.
    fn is_several(&self, index: usize) -> bool {
        self.numbers[index].as_ref().is_some_and(|number| *number != self.nest.loops[index].number)
    }

    /// The counts of all loops, from those of loops that are counted.
    fn of_all(&self, counts: Vec<LoopCount>) -> Vec<LoopCount> {
        let mut counts = counts.into_iter();
        let mut one = |(index, number): (usize, &Option<Vec<u32>>)| match number {
            Some(_) => counts.next().unwrap_or_default(),
            None => LoopCount { not_counted: Some(self.counted_with(index)), ..LoopCount::default() },
        };
        self.numbers.iter().enumerate().map(&mut one).collect()
    }

    fn counted_with(&self, index: usize) -> NotCounted {
        let part = &self.nest.loops[index];
        let has_it = |one: &NestLoop| one.function == part.function && one.instead.contains(&part.number);
        let whole = self.nest.loops.iter().position(has_it).map_or(0, |at| at + 1);
        NotCounted::Together { whole }
    }
}

impl Engine<'_> {
    /// Looks at the stacks of all ranks of the process's job on this machine some times, then counts passes of the loops
    /// that it saw until the rule has decided, and 2 s at least.
    ///
    /// # Errors
    /// Nothing can be looked at or counted, or the listener wanted the end before anything was counted.
    pub fn loops(&self, pid: Pid, wanted: &LoopsWanted) -> Result<FoundLoops, Error> {
        let (targets, elsewhere) = targets_of(pid, wanted.only_process)?;
        descriptors::check(targets.len())?;
        let pids: Vec<Pid> = targets.iter().map(|target| target.pid).collect();
        let mut change = Audited::begin(self.audit, "loops", Changed::Processes(&pids))?;
        let ends = Ends::watch(pids.into_iter());
        let found = self.look_and_count(targets, wanted);
        self.listener.hear(&Event::Done);
        change.restored();
        let mut found = found?;
        let departed = std::mem::take(&mut found.cost.departed);
        Ok(FoundLoops { elsewhere, ends: ends.with(departed), ..found })
    }

    fn look_and_count(&self, targets: Vec<Target>, wanted: &LoopsWanted) -> Result<FoundLoops, Error> {
        if wanted.seccomp_ok {
            targets.iter().for_each(|target| trimtab_os::trust_filters(target.pid));
        }
        let reach = |stage| self.listener.hear(&Event::Stage(stage));
        reach(Stage::Reading);
        let of_rank = |target: &Target| (target.rank.unwrap_or_default(), target.pid);
        let mut sampler = NestSampler::new(&targets.iter().map(of_rank).collect::<Vec<_>>(), self.cache)?;
        sampler.await_start();
        let begun = Instant::now();
        for look in 0..wanted.samples {
            if self.listener.is_interrupted() {
                return Err(Error::Interrupted);
            }
            reach(Stage::Looking { look: look + 1, of: wanted.samples });
            sampler.look()?;
            std::thread::sleep(Duration::from_millis(LOOK_EVERY_MS[look as usize % LOOK_EVERY_MS.len()]));
        }
        let (sampled_s, seen) = (begun.elapsed().as_secs_f64(), Seen::of(&sampler));
        let passed = match seen.nest.loops.is_empty() {
            true => Passed::default(),
            false => self.count(&seen, &targets, wanted)?,
        };
        let mut loops: Vec<FoundLoop> = (0..seen.nest.loops.len()).map(|index| seen.found(index, &passed)).collect();
        let (unusable, is_interpreted) = (
            seen.nest.unusable.iter().map(|one| sampler.named(one).to_string()).collect(),
            seen.nest.interpreter().is_some(),
        );
        let nest = seen.nest;
        read_others(&mut sampler, &nest, &mut loops);
        let looked = sampler.cost();
        Ok(FoundLoops {
            targets,
            elsewhere: 0,
            looks: looked.looks,
            sampled_s,
            stacks_known: sampler.stacks().len(),
            stacks_unknown: looked.unknown.clone(),
            pause_look_us_max: looked.pause_ns_max as f64 / 1e3,
            loops,
            unusable,
            is_interpreted,
            counted_s: passed.counted_s,
            cost: passed.cost,
            choice: passed.choice,
            ends: Ends::default(),
        })
    }

    /// Counts passes until the rule has decided, and 2 s at least.
    fn count(&self, seen: &Seen<'_>, targets: &[Target], wanted: &LoopsWanted) -> Result<Passed, Error> {
        let mut counting = CountedLoops::start(seen.points(), targets.to_vec(), wanted.seccomp_ok, self.cache)?;
        let begun = Instant::now();
        let mut looks = Looks::default();
        while counting.wait()? && !self.listener.is_interrupted() {
            let elapsed_s = counting.elapsed().as_secs_f64();
            self.listener.hear(&Event::Stage(Stage::Counting { seconds: elapsed_s }));
            let counted = looks.look(seen, &seen.of_all(counting.counts()), elapsed_s);
            let is_early = elapsed_s < NEST_SECONDS.min(wanted.max_seconds);
            if !is_early && choose_loop(&counted, elapsed_s, wanted.max_seconds) != LoopChoice::Wait {
                break;
            }
        }
        let counted_s = counting.elapsed().as_secs_f64().min(begun.elapsed().as_secs_f64());
        let (counts, cost) = counting.finish();
        let counts = seen.of_all(counts);
        let is_usable = seen.nest.interpreter().is_none();
        let counted = looks.look(seen, &counts, counted_s);
        let choice = match choose_loop(&counted, f64::INFINITY, wanted.max_seconds) {
            LoopChoice::Take(index) if is_usable => Some(index),
            _ => None,
        };
        let out_of_step = looks.out_of_step(seen, &counts);
        Ok(Passed { counts, counted_s, cost, choice, out_of_step })
    }
}

/// Reads how far those loops are of which counting did not tell it: where ranks stand in them now.
fn read_others(sampler: &mut NestSampler, nest: &Nest, loops: &mut [FoundLoop]) {
    let is_told = |count: &LoopCount| {
        // One that is passed very often is in another pass in each look.
        let is_fast = matches!(count.not_counted, Some(NotCounted::TooFast | NotCounted::Together { .. }));
        is_fast || matches!(count.progress, Some(Ok(_)))
    };
    let is_open = |one: &FoundLoop| !one.count.as_ref().is_some_and(is_told);
    let open: Vec<usize> = (0..loops.len()).filter(|index| is_open(&loops[*index])).collect();
    let of_nest: Vec<&NestLoop> = open.iter().map(|index| &nest.loops[*index]).collect();
    for (index, course) in open.iter().zip(courses(sampler, &of_nest)) {
        loops[*index].course = course;
    }
}

/// The passes of all loops.
#[derive(Default)]
struct Passed {
    counts: Vec<LoopCount>,
    counted_s: f64,
    cost: Summary,
    choice: Option<usize>,
    /// Loops that are counted as one, and that ranks do not pass equally often.
    out_of_step: Vec<usize>,
}

/// The ranks of the process's job on this machine, and how many are elsewhere; or the process alone.
fn targets_of(pid: Pid, only_process: bool) -> Result<(Vec<Target>, usize), Error> {
    let alone = vec![Target { pid, rank: None, ranks: None }];
    if only_process {
        return Ok((alone, 0));
    }
    let job = match find_job_in(&ProcFs::new(), pid, &has_static_mpi) {
        Ok(job) => job,
        Err(trimtab_track::Error::NotMpi { .. }) => return Ok((alone, 0)),
        Err(source) => return Err(Error::LoopsElsewhere { source }),
    };
    let target = |rank: &RankProcess| Target { pid: rank.pid, rank: Some(rank.rank.0), ranks: job.size };
    let targets: Vec<Target> = job.ranks.iter().map(target).collect();
    if targets.is_empty() {
        return Err(Error::NoRankHere { pid });
    }
    Ok((targets, job.missing_ranks().len()))
}

/// The results of looks at the counters of each loop.
#[derive(Debug, Default)]
struct Looks {
    bursts: Vec<Bursts>,
    in_step: Vec<InStep>,
}

impl Looks {
    /// Each loop on the rank that has passed it least, after one look more.
    fn look(&mut self, seen: &Seen, counts: &[LoopCount], seconds: f64) -> Vec<Counted> {
        self.bursts.resize(counts.len(), Bursts::default());
        self.in_step.resize(counts.len(), InStep::default());
        let mut counted = least_passed(&seen.nest, counts);
        for (index, one) in counted.iter_mut().enumerate() {
            let passes = || counts[index].ranks.values().map(|rank| rank.passes);
            self.bursts[index].look(seconds, one.passes.map_or(0, |counted| counted.passes));
            self.in_step[index].look(passes().min().unwrap_or(0), passes().max().unwrap_or(0));
            one.is_in_bursts = self.bursts[index].are_there();
            one.passes = one.passes.filter(|_| !seen.is_several(index) || self.in_step[index].is_seen(seconds));
            // One that is counted with another hides nothing.
            one.is_hidden &= seen.numbers[index].is_some();
        }
        counted
    }

    /// Loops that are counted as one, and that ranks do not pass equally often.
    fn out_of_step(&self, seen: &Seen, counts: &[LoopCount]) -> Vec<usize> {
        // Nothing is known of ranks in a loop that was not counted to the end.
        let is_known = |index: usize| counts[index].not_counted.is_none();
        let is_out =
            |index: &usize| seen.is_several(*index) && is_known(*index) && self.in_step[*index].is_contradicted();
        (0..self.in_step.len()).filter(is_out).collect()
    }
}

/// Each loop on the rank that has passed it least.
fn least_passed(nest: &Nest, counts: &[LoopCount]) -> Vec<Counted> {
    let is_below_recursion = matches!(nest.unknown_around(), Some(Unusable::Recursive(_)));
    let least = |(one, count): (&NestLoop, &LoopCount)| {
        let of_ranks =
            count.ranks.values().map(|rank| Passes { passes: rank.passes, with_mpi: rank.with_mpi.unwrap_or(0) });
        let passes = of_ranks.min_by_key(|rank| rank.passes).filter(|_| count.not_counted.is_none());
        // While the witness is not passed, the loop is not either.
        let is_unseen = count.witnessed == Some(0);
        let is_hidden = count.can_not_be_counted() && !is_unseen;
        let passes = passes.or(is_unseen.then(Passes::default));
        let is_in_recursion = is_below_recursion && count.ranks.values().all(|rank| rank.with_mpi.is_some());
        let is_seen_in_mpi = one.is_seen_in_mpi;
        Counted { passes, is_seen_in_mpi, is_hidden, is_in_bursts: false, is_around_left: false, is_in_recursion }
    };
    nest.loops.iter().zip(counts).map(least).collect()
}
