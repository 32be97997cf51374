//! The nest of loops that run, agreed on by all nodes before anything is put in, where one of them is wanted by its number.
//!
//! All of them are counted from the moment the probes are in, so that the report can say what lies around and inside of
//! the wanted one.
//!
//! Next: `marker`, which asks for it first; `node::nest` for the stacks.

use super::drive::WindowLead;
use super::marker::{LEFT_LOOP_SECONDS, LOOK_MS_MAX, PASSES_WAITED};
use super::no_loop::NoLoop;
use super::recording::is_somewhere_else;
use crate::error::Error;
use crate::node::PASSES_PER_SECOND_MAX;
use crate::options::{Length, LoopName, Mark, Options, WindowStage};
use crate::reason::{NestUnknown, NotYet};
use crate::request::{Answer, LoopCourse, LoopPasses, Request, Sampled, SampledCourse, SampledLoop};
use std::collections::BTreeSet;
use std::time::Duration;
use trimtab_session::{EITHER, each_of};
use trimtab_types::report::{FunctionGroup, LoopPlace, OuterProgress};
use trimtab_window::{
    Bursts, Counted, FunctionInfo, InStep, LoopChoice, NEST_PART_MAX, NEST_SECONDS, PASSES_MIN, Passes, choose_loop,
};

/// First look at the counters.
const FIRST_LOOK_MS: u64 = 2;

/// Passes that must have been seen before a loop is called too fast.
const PASSES_JUDGED_MIN: u64 = 500;

/// Passes of a loop that an earlier window took, by which the time of one is known; and the part of `--max-seconds` that the
/// second one is waited for.
const KNOWN_PASSES_MIN: u64 = 2;
const KNOWN_PART_MAX: f64 = 1.0 / 2.0;

/// Passes of which it is said how many have calls of MPI, if fewer than this part have.
const PASSES_REMARKED_MIN: u64 = 10;
const WITH_CALLS_USUAL: f64 = 0.9;

/// Inner loops that a description names.
const DESCRIBED_MAX: usize = 3;

/// The loops that run, outermost first, and which of them can be counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    pub loops: Vec<SampledLoop>,
    /// Why none of them counts.
    pub why_not: Option<NoLoop>,
    /// A function around them whose loops are not known, and why.
    pub unknown_around: Option<NestUnknown>,
    /// The one that was taken, by its position.
    pub taken: Option<usize>,
    /// Longest time that a thread was held for a look, microseconds.
    pub pause_us_max: f64,
    /// All such times of the rank where they are longest together, microseconds.
    pub pause_us_total: f64,
}

/// The loop whose passes are the iterations.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chosen {
    /// Its position among the measured functions.
    pub function: u32,
    /// Seconds of a pass, about; 0: not known.
    pub pass_s: f64,
    /// The nest in a sentence.
    pub description: String,
    /// The loops around it, outermost first.
    pub around: Vec<String>,
}

impl Candidates {
    /// Asks the nodes, unless something else counts iterations.
    pub(super) fn sampled(lead: &mut WindowLead) -> Result<Self, Error> {
        if !matches!(lead.options.mark, Mark::Nest(_) | Mark::Auto) {
            return Ok(Candidates::default());
        }
        Self::asked_for(lead, Request::Sample(Box::new(lead.options.clone())))
    }

    /// The loops that run, as all nodes answer this question.
    fn asked_for(lead: &mut WindowLead, question: Request) -> Result<Self, Error> {
        let answers = lead.membership.ask(question, |answer| match answer {
            Answer::Sampled(sampled) => Some(sampled),
            _ => None,
        })?;
        let longest = |of: fn(&Sampled) -> f64| answers.iter().map(|(_, sampled)| of(sampled)).fold(0.0, f64::max);
        let (pause_us_max, pause_us_total) = (longest(|one| one.pause_us_max), longest(|one| one.pause_us_total));
        let found = Candidates::common(answers.into_iter().map(|(_, sampled)| sampled));
        Candidates { pause_us_max, pause_us_total, ..found }.checked(&lead.options.mark)
    }

    /// Loops that all nodes have seen which looked at any stack, in the order of the first.
    fn common(nodes: impl Iterator<Item = Sampled>) -> Self {
        let mut candidates: Option<Candidates> = None;
        for node in nodes {
            let has_no_rank = node.stacks == 0 && node.why_not.is_none();
            match &mut candidates {
                _ if has_no_rank => {}
                None => {
                    let Sampled { loops, why_not, unknown_around, .. } = node;
                    let why_not = why_not.map(NoLoop::OfStacks);
                    candidates = Some(Candidates { loops, why_not, unknown_around, ..Candidates::default() });
                }
                Some(known) => known.join(node),
            }
        }
        candidates.unwrap_or_default()
    }

    fn join(&mut self, node: Sampled) {
        self.loops.retain_mut(|one| {
            let Some(other) = the_same(one, &node.loops) else { return false };
            // On a node where all ranks are in one of the loops, that one alone is known.
            if other.number.len() > one.number.len() {
                (one.number, one.shown) = (other.number.clone(), other.shown.clone());
            }
            one.is_seen_in_mpi |= other.is_seen_in_mpi;
            one.copies = one.copies.max(other.copies);
            one.course = std::mem::take(&mut one.course).joined(other.course.clone());
            if one.why_not.is_none() {
                (one.why_not, one.witness) = (other.why_not.clone(), other.witness.clone());
            }
            true
        });
        self.why_not = self.why_not.take().or(node.why_not.map(NoLoop::OfStacks));
        self.unknown_around = self.unknown_around.take().or(node.unknown_around);
    }

    /// Whoever wants one of them by its number must get that.
    fn checked(self, mark: &Mark) -> Result<Self, Error> {
        let Mark::Nest(number) = mark else { return Ok(self) };
        let count = self.loops.len();
        let found = (*number as usize).checked_sub(1).and_then(|index| self.loops.get(index));
        if found.is_some_and(|one| one.is_part) {
            return Err(Error::LoopTogether { number: *number });
        }
        match found.map(|one| one.why_not.clone()) {
            Some(None) => Ok(self),
            Some(Some(reason)) => Err(Error::LoopNotCounted { number: *number, reason }),
            None => {
                let why = self.why_not.map(|why| why.to_string());
                Err(Error::NoLoopOfNest { number: *number, count, why })
            }
        }
    }

    /// Those that are counted. Of the rule's, none inside of one of which nothing can be told.
    fn watched(&self, mark: &Mark) -> Vec<Watched> {
        let loops = self.loops.iter().enumerate().filter(|(_, one)| !one.is_part);
        let watched = loops.map(|(index, one)| Watched::of(index, one));
        match mark {
            Mark::Auto => watched.map_while(|one| one).collect(),
            _ => watched.flatten().filter(|one| !one.is_hidden).collect(),
        }
    }

    /// No loop of the program counts, for this reason, if no other is known.
    fn note(&mut self, why: impl FnOnce(&[SampledLoop]) -> Option<NoLoop>) {
        if self.why_not.is_none() {
            self.why_not = why(&self.loops);
        }
    }

    /// The same of loops that were counted: whatever was known before is not all.
    fn note_counted(&mut self, told: Option<NoLoop>) {
        let told = cannot_be_counted(&self.loops).or(told);
        self.why_not = NoLoop::joined(told, self.why_not.take());
    }

    /// Stacks were looked at, and there was no loop to count.
    fn note_none(&mut self) {
        if self.pause_us_max > 0.0 {
            self.note(|loops| Some(cannot_be_counted(loops).unwrap_or(NoLoop::NoneAround)));
        }
    }

    /// The loop that was chosen was not passed any more.
    pub(super) fn left(&mut self, name: &str, rank: u32, seconds: f64) {
        let why = NoLoop::Left { name: name.to_owned(), rank, seconds };
        self.note(|_| Some(why));
    }

    /// Reasons why a pass of a loop may not be an iteration of the program: more than one may be in it, or a loop around it.
    fn doubts(&self, index: usize) -> String {
        let mut said = String::new();
        let copies = self.loops.get(index).map_or(0, |one| one.copies);
        if copies > 1 {
            said += &format!(
                "; its body stands {copies} times in its code, which compilers make of one: a pass may be {copies} iterations"
            );
        }
        let several = self.loops.get(index).map_or(1, |one| each_of(&one.number).count());
        if several > 1 {
            said += &format!(
                "; each rank is in one of these {several} loops, and passes it as often as the others pass theirs"
            );
        }
        if let Some(why) = &self.unknown_around {
            said += &format!("; a loop around it may not be known: {why}");
        }
        said
    }

    /// Loops around the one that is taken whose passes are not counted, outermost first, each with the reason.
    fn not_counted_around(&self, count: &Count, taken: usize) -> Vec<String> {
        let is_counted = |index: usize| count.watched.iter().any(|one| one.index == index && !one.is_hidden);
        let around = self.loops.iter().enumerate().take(count.watched[taken].index);
        let said = |(_, one): (usize, &SampledLoop)| match &one.why_not {
            Some(reason) => format!("{}, which can't be counted ({reason})", one.shown),
            None => format!("{}, which was not counted", one.shown),
        };
        around.filter(|(index, one)| !one.is_part && !is_counted(*index)).map(said).collect()
    }

    /// The loops around one of them, outermost first.
    fn around(&self, index: usize) -> Vec<String> {
        self.loops.iter().take(index).filter(|one| !one.is_part).map(|one| one.shown.clone()).collect()
    }

    /// The loops around the one that was taken, or around the innermost one that was counted if none was.
    pub(super) fn around_taken(&self) -> Vec<LoopName> {
        let watched: Vec<Watched> = self.watched(&Mark::Auto).into_iter().filter(|one| !one.is_hidden).collect();
        let inside = self.taken.or(watched.last().map(|one| one.index)).unwrap_or(0);
        watched.into_iter().filter(|one| one.index < inside).map(|one| one.name).collect()
    }

    /// Loops that run `now`, and did not when these were looked at, and may lie around the one that was taken: those outside
    /// of it, or all if too few stacks are in it at the moment. If none was taken, those outside of all that were known. Each by its name.
    fn new_around(&self, now: &Candidates) -> Vec<String> {
        let is_same =
            |one: &SampledLoop, other: &SampledLoop| (&one.function, &one.number) == (&other.function, &other.number);
        let is_inside = |one: &SampledLoop| match self.taken.and_then(|index| self.loops.get(index)) {
            Some(taken) => is_same(one, taken),
            None => self.loops.iter().any(|known| is_same(known, one)),
        };
        let at = now.loops.iter().position(is_inside).unwrap_or(now.loops.len());
        let is_new = |one: &&SampledLoop| !self.loops.iter().any(|known| is_same(known, one));
        now.loops[..at].iter().filter(is_new).map(|one| one.shown.clone()).collect()
    }

    /// How far the loops around the one that was taken are, as stacks showed it that were seen `now`; none if it has others
    /// around it by now, or may have. If none was taken: of those in which ranks were seen before, too.
    fn outer(&self, now: &Candidates) -> Vec<OuterProgress> {
        let is_known = now.unknown_around.is_none() && self.unknown_around.is_none() && self.new_around(now).is_empty();
        if !is_known {
            return Vec::new();
        }
        let around = self.loops.iter().take(self.taken.unwrap_or(self.loops.len())).filter(|one| !one.is_part);
        let seen = around.map(|one| (one, the_same(one, &now.loops)));
        let still = seen.filter(|(_, now)| self.taken.is_some() || now.is_some());
        still.map(|(one, now)| outer_progress(one, now)).collect()
    }

    /// Looks at stacks beside those of which these came.
    pub(super) fn add_pauses(&mut self, us_max: f64, us_total: f64) {
        self.pause_us_max = self.pause_us_max.max(us_max);
        self.pause_us_total += us_total;
    }

    /// The options with these loops to count.
    pub(super) fn asked(&self, options: &Options) -> Options {
        let watched = self.watched(&options.mark);
        let loops = options.loops.iter().cloned().chain(watched.into_iter().map(|one| one.name)).collect();
        Options { loops, ..options.clone() }
    }
}

/// The loop of another node that is the same as this one: best alike in every way, else one of those in which ranks are in
/// place of each other.
fn the_same<'n>(one: &SampledLoop, others: &'n [SampledLoop]) -> Option<&'n SampledLoop> {
    let is_same = |other: &&SampledLoop| (&one.function, &one.number) == (&other.function, &other.number);
    let has_it = |many: &SampledLoop, one: &SampledLoop| each_of(&many.number).any(|number| number == one.number);
    let is_one_of = |other: &&SampledLoop| {
        one.function == other.function && !one.is_part && !other.is_part && (has_it(other, one) || has_it(one, other))
    };
    let own = others.iter().find(is_same).filter(|other| other.is_part == one.is_part);
    own.or_else(|| others.iter().find(is_one_of))
}

/// A loop of the nest that is counted, or one of which it is counted whether it can have been passed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Watched {
    /// Its position in the nest.
    index: usize,
    name: LoopName,
    is_seen_in_mpi: bool,
    /// Several loops are counted together, of which each rank is in one.
    is_several: bool,
    /// In its place something is counted that each of its passes goes through: while that is not passed, it is not either.
    is_hidden: bool,
}

impl Watched {
    fn of(index: usize, one: &SampledLoop) -> Option<Self> {
        let is_hidden = one.why_not.is_some();
        let name = match is_hidden {
            false => LoopName { function: one.function.clone(), number: Some(one.number.clone()) },
            true => one.witness.clone()?,
        };
        let is_several = !is_hidden && one.number.contains(&EITHER);
        Some(Watched { index, name, is_seen_in_mpi: one.is_seen_in_mpi, is_several, is_hidden })
    }
}

/// A look at the stacks after the window.
#[derive(Default)]
pub(super) struct LookBehind {
    /// Loops around the one that was taken which the program has entered since.
    pub entered: Vec<String>,
    /// How far those are that were known to lie around it, or all that were known if none was taken.
    pub outer: Vec<OuterProgress>,
    /// The longest time that a thread was held for it, microseconds.
    pub pause_us_max: f64,
    /// All such times of the rank where they are longest together, microseconds.
    pub pause_us_total: f64,
}

/// Looks at the stacks once more, after the window.
///
/// # Errors
/// As any question to the nodes.
pub(super) fn look_behind(lead: &mut WindowLead) -> Result<LookBehind, Error> {
    if lead.options.mark != Mark::Auto || lead.candidates.loops.is_empty() {
        return Ok(LookBehind::default());
    }
    let now = Candidates::asked_for(lead, Request::SampleCourses(Box::new(lead.options.clone())))?;
    Ok(LookBehind {
        entered: lead.candidates.new_around(&now),
        outer: lead.candidates.outer(&now),
        pause_us_max: now.pause_us_max,
        pause_us_total: now.pause_us_total,
    })
}

/// How far a loop is, for a report.
fn outer_progress(one: &SampledLoop, now: Option<&SampledLoop>) -> OuterProgress {
    let nothing = OuterProgress { name: one.shown.clone(), ..OuterProgress::default() };
    let missing = |why: &str| OuterProgress { missing: Some(why.to_owned()), ..nothing.clone() };
    match now.map(|now| &now.course) {
        Some(SampledCourse::Seen(LoopCourse { done, to_come, may_end_before, is_sure })) => OuterProgress {
            done: *done,
            to_come: Some(*to_come).filter(|_| !may_end_before),
            to_come_at_most: Some(*to_come),
            is_likely: !is_sure,
            ..nothing
        },
        Some(SampledCourse::Unknown { why }) => missing(why),
        Some(SampledCourse::NotAsked) | None => missing("no stack was in it after the window"),
    }
}

/// Looks at the stacks again where no loop of the program counts: the loops that run now, if one of them can be counted that
/// was not before. A program that was setting up may have come to its main loop.
///
/// # Errors
/// As any question to the nodes.
pub(super) fn others(lead: &mut WindowLead) -> Result<Option<Candidates>, Error> {
    if !lead.may_look_again() {
        return Ok(None);
    }
    lead.looked_again += 1;
    let now = Candidates::asked_for(lead, Request::SampleBeside(Box::new(lead.options.clone())))?;
    lead.candidates.add_pauses(now.pause_us_max, now.pause_us_total);
    let is_new = |one: &Watched| !one.is_hidden && !lead.tried.contains(&one.name);
    Ok(now.watched(&Mark::Auto).iter().any(is_new).then_some(now))
}

/// The loops that are counted, with what was.
struct Count {
    watched: Vec<Watched>,
    /// Their positions among the measured functions.
    functions: Vec<u32>,
    passed: Passed,
    /// The first look: seconds when it was asked for, and the passes that it told.
    first: Option<(f64, Vec<u64>)>,
    /// Bursts in the passes of the rank that has passed it least.
    bursts: Vec<Bursts>,
    /// Ranks pass each of them equally often, or not.
    in_step: Vec<InStep>,
    /// Calls of MPI are measured: passes tell if there are any between.
    counts_calls: bool,
    /// When the latest look was answered, seconds.
    seconds: f64,
}

/// Passes of each of them.
#[derive(Clone, Debug, Default)]
struct Passed {
    /// On the rank that has passed it least.
    least: Vec<Passes>,
    /// Passes of the rank that has passed it most.
    most: Vec<u64>,
    /// Seconds of one pass on the slowest rank; 0: not known.
    pass_s: Vec<f64>,
}

impl Count {
    fn begun(lead: &WindowLead) -> Self {
        let watched = lead.candidates.watched(&lead.options.mark);
        let functions = functions_of(&lead.facts.functions, watched.len());
        let (bursts, in_step) = (vec![Bursts::default(); watched.len()], vec![InStep::default(); watched.len()]);
        let counts_calls = lead.facts.functions.iter().any(|function| function.group == FunctionGroup::Comm);
        let (passed, first, seconds) = (Passed::default(), None, 0.0);
        Count { watched, functions, passed, first, bursts, in_step, counts_calls, seconds }
    }

    /// Notes what a look has shown that was asked for at `asked_s` and answered at `seconds`.
    fn note(&mut self, mut passed: Passed, asked_s: f64, seconds: f64) {
        if !self.counts_calls {
            // Nobody knows: ranks that pass it equally often have to do.
            passed.least.iter_mut().for_each(|least| least.with_mpi = least.passes);
        }
        self.first.get_or_insert_with(|| (asked_s, passed.most.clone()));
        for (in_step, (least, most)) in self.in_step.iter_mut().zip(passed.least.iter().zip(&passed.most)) {
            in_step.look(least.passes, *most);
        }
        (self.passed, self.seconds) = (passed, seconds);
        for (bursts, least) in self.bursts.iter_mut().zip(&self.passed.least) {
            bursts.look(seconds, least.passes);
        }
    }

    /// The place in the nest of the outermost loop whose counting the program would feel, unless the user wants it.
    ///
    /// Ranks count from when their probes went in, which may be long before the first look: only passes since that one tell.
    fn too_fast(&self, seconds: f64, mark: &Mark) -> Option<usize> {
        let (asked_s, first) = self.first.as_ref()?;
        let is_wanted = |index: usize| *mark == Mark::Nest(index as u32 + 1);
        let most = PASSES_PER_SECOND_MAX * (seconds - asked_s);
        let is_fast = |passes: u64| passes >= PASSES_JUDGED_MIN && passes as f64 > most;
        let since = self.passed.most.iter().zip(first).map(|(now, first)| now.saturating_sub(*first));
        let found = self.watched.iter().zip(since).find(|(_, passes)| is_fast(*passes));
        found.map(|(one, _)| one.index).filter(|index| !is_wanted(*index))
    }

    /// The position of a loop, if it is counted.
    fn position_of(&self, functions: &[FunctionInfo], wanted: &LoopPlace) -> Option<usize> {
        let is_it = |position: &usize| {
            let place = functions[self.functions[*position] as usize].loop_place.as_ref();
            place.is_some_and(|place| (&place.module, &place.address) == (&wanted.module, &wanted.address))
        };
        (0..self.watched.len()).filter(|position| !self.watched[*position].is_hidden).find(is_it)
    }

    /// As the rule sees them, where a loop inside of `around_left` was left before, and all may be in a recursion.
    fn counted(&self, around_left: &BTreeSet<LoopName>, is_in_recursion: bool) -> Vec<Counted> {
        let one = |(position, watched): (usize, &Watched)| {
            let is_hidden = watched.is_hidden && self.passed.most[position] > 0;
            let passes = Some(self.passed.least[position]).filter(|_| !is_hidden && self.is_in_step(position));
            let is_in_bursts = self.bursts[position].are_there();
            let is_around_left = around_left.contains(&watched.name);
            Counted {
                passes,
                is_seen_in_mpi: watched.is_seen_in_mpi,
                is_hidden,
                is_in_bursts,
                is_around_left,
                is_in_recursion,
            }
        };
        self.watched.iter().enumerate().map(one).collect()
    }

    /// Ranks pass a loop equally often. Where they are in several loops, one may hand out what the others do; and a loop without
    /// calls of MPI is none of all ranks together, unless they are seen to do so.
    fn is_in_step(&self, position: usize) -> bool {
        let one = &self.watched[position];
        let is_with_calls = one.is_seen_in_mpi || self.counts_calls;
        (is_with_calls && !one.is_several) || self.in_step.get(position).is_some_and(|one| one.is_seen(self.seconds))
    }

    /// The outermost loop inside of `taken`, or that one, of which the asked iterations fit into the time that is left.
    fn fitting(&self, taken: usize, length: Length, start: Option<u64>, left_s: f64) -> usize {
        let Length::Iterations(asked) = length else { return taken };
        let passes = asked.saturating_add(start.unwrap_or(0)) as f64;
        let fits = |position: &usize| {
            let repeats = self.passed.least[*position].passes >= PASSES_MIN && !self.watched[*position].is_hidden;
            (repeats || *position == taken) && self.passed.pass_s[*position] * passes <= left_s
        };
        (taken..self.watched.len()).find(fits).unwrap_or(taken)
    }
}

/// The outcome of counting.
pub(super) enum Choice {
    /// The main loop.
    Loop(Chosen),
    /// The program left the loops that were counted before one was chosen; this is the innermost of them.
    Left {
        /// Its name.
        name: String,
    },
    /// No loop of the program is the main one.
    Nothing,
}

/// The main loop: the one of the nest that is wanted, or that the rule chooses.
pub(super) fn chosen(lead: &mut WindowLead, limit_s: f64) -> Result<Choice, Error> {
    let mut count = Count::begun(lead);
    let mut stillness = Stillness::default();
    let mut wait_ms = FIRST_LOOK_MS;
    while !count.functions.is_empty() {
        std::thread::sleep(Duration::from_millis(wait_ms));
        wait_ms = (wait_ms * 3 / 2).min(LOOK_MS_MAX);
        lead.check_interrupted()?;
        let asked_s = lead.seconds();
        let counted = passed(lead, &count.functions)?;
        let seconds = lead.seconds();
        count.note(counted, asked_s, seconds);
        if let Some(name) = left(lead, &count, &mut stillness, seconds)? {
            return Ok(Choice::Left { name });
        }
        if let Some(index) = count.too_fast(seconds, &lead.options.mark) {
            if index == 0 {
                let function = count.watched.iter().position(|one| one.index == 0).map(|at| count.functions[at]);
                let name = function.map(|function| shown(&lead.facts.functions, function)).unwrap_or_default();
                lead.candidates.note(|_| Some(NoLoop::TooFast { name }));
            }
            lead.candidates.loops.truncate(index);
            lead.insert(Request::InsertAnew)?;
            (count, stillness) = (Count::begun(lead), Stillness::default());
            continue;
        }
        match choice(lead, &count, seconds, limit_s) {
            LoopChoice::Nothing => {
                let told = none_taken(&lead.facts.functions, &count, seconds);
                lead.candidates.note_counted(told);
                return Ok(Choice::Nothing);
            }
            LoopChoice::Take(taken) => {
                let left_s = lead.max_seconds - seconds;
                let fitting = count.fitting(taken, lead.options.length, lead.options.start, left_s);
                let around = lead.candidates.not_counted_around(&count, fitting);
                let mut description = description(&lead.facts.functions, &count, fitting, seconds, &around);
                description += &lead.candidates.doubts(count.watched[fitting].index);
                if fitting != taken {
                    description += &too_long(&lead.facts.functions, &count, taken, lead.max_seconds);
                }
                lead.candidates.taken = Some(count.watched[fitting].index);
                let (function, pass_s) = (count.functions[fitting], count.passed.pass_s[fitting]);
                let around = lead.candidates.around(count.watched[fitting].index);
                return Ok(Choice::Loop(Chosen { function, pass_s, description, around }));
            }
            LoopChoice::Wait => {}
        }
        lead.progress.stage(&WindowStage::Observing { seconds, why: NotYet::CountingPasses });
    }
    lead.candidates.note_none();
    Ok(Choice::Nothing)
}

/// Since when none of the loops was passed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stillness {
    passes: u64,
    /// Seconds since the probes went in.
    since_s: f64,
    /// When it was looked where the ranks are.
    looked_s: f64,
}

impl Stillness {
    /// Notes all passes of all loops so far; true if it is time to look where the ranks are, because none was passed for so
    /// long, seconds.
    fn is_time(&mut self, passes: u64, seconds: f64, patience_s: f64) -> bool {
        if passes != self.passes {
            (self.passes, self.since_s) = (passes, seconds);
        }
        let is_time = seconds - self.since_s.max(self.looked_s) > patience_s;
        if is_time {
            self.looked_s = seconds;
        }
        is_time
    }
}

/// The innermost loop that is counted, if it was not passed for a while and no rank is in it any more, and there is time to
/// look for others.
fn left(
    lead: &mut WindowLead,
    count: &Count,
    stillness: &mut Stillness,
    seconds: f64,
) -> Result<Option<String>, Error> {
    let Some(innermost) = count.watched.iter().rposition(|one| !one.is_hidden) else { return Ok(None) };
    let passed_s = PASSES_WAITED * count.passed.pass_s[innermost] + LEFT_LOOP_SECONDS;
    let is_time = stillness.is_time(count.passed.most.iter().sum(), seconds, passed_s.max(NEST_SECONDS));
    let function = count.functions[innermost];
    let is_left = is_time && lead.may_choose_anew() && is_somewhere_else(lead, function)?;
    Ok(is_left.then(|| shown(&lead.facts.functions, function)))
}

/// The wanted loop as soon as a few of its passes were counted, or what the rule says.
fn choice(lead: &WindowLead, count: &Count, seconds: f64, limit_s: f64) -> LoopChoice {
    let options = lead.options;
    let Mark::Nest(number) = options.mark else {
        let known = options.known_loop.as_deref();
        let known = known.and_then(|known| count.position_of(&lead.facts.functions, known));
        let known = known.map(|position| (position, count.passed.least[position].passes));
        let is_in_recursion = matches!(lead.candidates.unknown_around, Some(NestUnknown::Recursive { .. }));
        let kept = known.and_then(|(position, passes)| keep_to(position, passes, seconds, lead.max_seconds));
        return kept.unwrap_or_else(|| {
            choose_loop(&count.counted(&lead.around_left, is_in_recursion), seconds, lead.max_seconds)
        });
    };
    let Some(wanted) = count.watched.iter().position(|one| one.index + 1 == number as usize) else {
        return LoopChoice::Nothing;
    };
    let is_known = count.passed.least[wanted].passes >= PASSES_MIN || seconds >= limit_s;
    if is_known { LoopChoice::Take(wanted) } else { LoopChoice::Wait }
}

/// A loop that an earlier window took is kept to once its second pass shows how long one takes; it is waited for as long
/// as the rule waits, and where it was passed once, longer. `None`: the rule decides.
fn keep_to(position: usize, passes: u64, seconds: f64, max_seconds: f64) -> Option<LoopChoice> {
    let waited_s = match passes {
        KNOWN_PASSES_MIN.. => return Some(LoopChoice::Take(position)),
        0 => NEST_SECONDS.min(max_seconds * NEST_PART_MAX),
        _ => max_seconds * KNOWN_PART_MAX,
    };
    (seconds < waited_s).then_some(LoopChoice::Wait)
}

/// `loop 1 of solve at md.c:31`.
fn shown(functions: &[FunctionInfo], function: u32) -> String {
    let info = &functions[function as usize];
    let source = info.loop_place.as_ref().and_then(LoopPlace::source);
    source.map_or_else(|| info.name.clone(), |source| format!("{} at {source}", info.name))
}

/// `the outermost of the program's loops that run; inside of it runs loop 1 of solve at md.c:31`.
///
/// `around` are loops around it that can't be counted.
fn description(functions: &[FunctionInfo], count: &Count, taken: usize, seconds: f64, around: &[String]) -> String {
    let name = |position: usize| shown(functions, count.functions[position]);
    let is_counted = |position: &usize| !count.watched[*position].is_hidden;
    let passes = |position: usize| count.passed.least[position].passes;
    let (passed, not): (Vec<usize>, Vec<usize>) =
        (0..taken).filter(is_counted).partition(|position| passes(*position) > 0);
    let mut text = match passed.is_empty() && not.is_empty() && around.is_empty() {
        true => "the outermost of the program's loops that run".to_owned(),
        false => "a loop of the program".to_owned(),
    };
    let how = |position: usize| if count.bursts[position].are_there() { " in bursts" } else { "" };
    let of_passed = |position: usize| format!("{} ({}{})", name(position), times(passes(position)), how(position));
    if !passed.is_empty() {
        text +=
            &format!(", inside of {}, counted for {}", innermost(&passed, DESCRIBED_MAX, of_passed), length(seconds));
    }
    if !not.is_empty() {
        text += &format!(
            ", inside of {}, of which no pass began in the {} in which passes were counted",
            innermost(&not, 1, name),
            length(seconds)
        );
    }
    if let Some((outermost, others)) = around.split_first() {
        let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        text += &format!(", inside of {outermost}{more}: an iteration of the program may be a pass of that");
    }
    let inside: Vec<String> =
        (taken + 1..count.functions.len()).filter(is_counted).take(DESCRIBED_MAX).map(name).collect();
    if !inside.is_empty() {
        text += &format!("; inside of it runs {}", inside.join(", in that "));
    }
    text + &seldom_with_calls(count.passed.least[taken])
}

/// `2.0 s`, `30 ms`.
fn length(seconds: f64) -> String {
    match seconds < 0.1 {
        true => format!("{:.0} ms", (seconds * 1e3).max(1.0)),
        false => format!("{seconds:.1} s"),
    }
}

/// The innermost of some loops around another, `most` of them, as `one` says each, and how many more there are.
fn innermost(positions: &[usize], most: usize, one: impl Fn(usize) -> String) -> String {
    let more = positions.len().saturating_sub(most);
    let mut said: Vec<String> = positions[more..].iter().map(|position| one(*position)).collect();
    if more > 0 {
        said.push(format!("{more} more"));
    }
    said.join(" and ")
}

/// `1 pass`, `2 passes`.
fn times(passes: u64) -> String {
    if passes == 1 { "1 pass".to_owned() } else { format!("{passes} passes") }
}

/// A remark on a loop many of whose passes have no call of MPI: its passes may be parts of a step, or steps that rarely talk.
fn seldom_with_calls(counted: Passes) -> String {
    let Passes { passes, with_mpi } = counted;
    let share = with_mpi as f64 / passes.max(1) as f64;
    match passes >= PASSES_REMARKED_MIN && share < WITH_CALLS_USUAL {
        true => format!("; only {:.0}% of its passes have calls of MPI", 100.0 * share),
        false => String::new(),
    }
}

/// The outermost loop around calls of MPI, if that can't be counted.
fn cannot_be_counted(loops: &[SampledLoop]) -> Option<NoLoop> {
    let outermost = loops.iter().find(|one| one.is_seen_in_mpi && !one.is_part)?;
    let reason = outermost.why_not.clone()?;
    Some(NoLoop::Uncountable { shown: outermost.shown.clone(), reason })
}

/// The outermost loop that was counted, which was not passed often enough.
fn none_taken(functions: &[FunctionInfo], count: &Count, seconds: f64) -> Option<NoLoop> {
    let is_counted = |position: &usize| !count.watched[*position].is_hidden;
    let passed = |position: &usize| count.passed.least[*position];
    let repeats = |position: &usize| passed(position).passes >= PASSES_MIN;
    if let Some(without) = (0..count.watched.len()).filter(is_counted).find(repeats) {
        let (name, counted) = (shown(functions, count.functions[without]), passed(&without));
        let (least, most) = (counted.passes, count.passed.most[without]);
        return Some(match count.is_in_step(without) {
            true => NoLoop::WithoutCalls { name, counted, seconds },
            false => NoLoop::OutOfStep { name, least, most, seconds },
        });
    }
    let outermost = (0..count.watched.len()).find(is_counted)?;
    let (name, passes) = (shown(functions, count.functions[outermost]), count.passed.least[outermost].passes);
    Some(NoLoop::Seldom { name, passes, seconds })
}

/// Why an inner loop was taken in place of `taken`.
fn too_long(functions: &[FunctionInfo], count: &Count, taken: usize, max_seconds: f64) -> String {
    let (name, pass_s) = (shown(functions, count.functions[taken]), count.passed.pass_s[taken]);
    format!(
        "; a pass of {name} takes {pass_s:.1} s, too long for so many iterations in {max_seconds} s (--max-seconds)"
    )
}

/// The last `count` measured loops; none if there are fewer, because some were one.
fn functions_of(functions: &[FunctionInfo], count: usize) -> Vec<u32> {
    let loops = functions.iter().enumerate().filter(|(_, info)| info.loop_place.is_some());
    let loops: Vec<u32> = loops.map(|(index, _)| index as u32).collect();
    loops.len().checked_sub(count).map_or(Vec::new(), |before| loops[before..].to_vec())
}

/// How often the ranks have passed each loop.
fn passed(lead: &mut WindowLead, functions: &[u32]) -> Result<Passed, Error> {
    let asked = Request::LoopPasses { functions: functions.to_vec() };
    let answers = lead.membership.ask(asked, |answer| match answer {
        Answer::LoopPassed(passes) => Some(passes),
        _ => None,
    })?;
    if answers.iter().any(|(_, node)| !node.is_alive) {
        return Err(Error::EndedEarly);
    }
    let mut passed = Passed::default();
    for index in 0..functions.len() {
        let of_node = |node: &LoopPasses| {
            let passes = Passes { passes: *node.passes_min.get(index)?, with_mpi: *node.with_mpi.get(index)? };
            Some((passes, *node.passes_max.get(index)?, *node.pass_ticks_max.get(index)?))
        };
        let nodes: Vec<(Passes, u64, f64)> = answers.iter().filter_map(|(_, node)| of_node(node)).collect();
        passed.least.push(nodes.iter().map(|node| node.0).min_by_key(|passes| passes.passes).unwrap_or_default());
        passed.most.push(nodes.iter().map(|node| node.1).max().unwrap_or(0));
        passed.pass_s.push(lead.seconds_of(nodes.iter().map(|node| node.2).fold(0.0, f64::max)));
    }
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::NoIterations;

    fn node(stacks: u64, loops: &[&str]) -> Sampled {
        let one = |name: &&str| SampledLoop {
            function: (*name).to_owned(),
            number: vec![1],
            share: 1.0,
            is_seen_in_mpi: true,
            ..SampledLoop::default()
        };
        Sampled { stacks, loops: loops.iter().map(one).collect(), ..Sampled::default() }
    }

    #[test]
    fn loops_of_all_nodes_with_ranks_are_candidates() {
        let names = |nodes: Vec<Sampled>| -> Vec<String> {
            Candidates::common(nodes.into_iter()).loops.into_iter().map(|one| one.function).collect()
        };
        assert_eq!(names(vec![node(5, &["a", "b", "c"]), node(5, &["c", "a"])]), ["a", "c"]);
        assert_eq!(names(vec![node(0, &[]), node(5, &["a"])]), ["a"]);
        let failed = Sampled { why_not: Some(NestUnknown::NothingInCommon), ..Sampled::default() };
        assert_eq!(names(vec![node(5, &["a"]), failed]), Vec::<String>::new());
        assert_eq!(names(vec![]), Vec::<String>::new());
    }

    /// Nodes on which all ranks are in one of several loops know nothing of the others.
    #[test]
    fn loops_in_which_other_ranks_are_instead_are_one() {
        let several = |numbers: &[&[u32]]| {
            let one = |number: &&[u32]| SampledLoop { number: number.to_vec(), ..node(5, &["a"]).loops[0].clone() };
            Sampled { loops: numbers.iter().map(one).collect(), ..node(5, &[]) }
        };
        let mut both = several(&[&[1, EITHER, 2], &[2]]);
        both.loops[1].is_part = true;
        for nodes in [
            vec![both.clone(), both.clone()],
            vec![both.clone(), several(&[&[2]])],
            vec![several(&[&[2]]), both.clone()],
        ] {
            let candidates = Candidates::common(nodes.into_iter());
            let watched = candidates.watched(&Mark::Auto);
            assert_eq!(
                watched.iter().map(|one| one.name.number.clone()).collect::<Vec<_>>(),
                [Some(vec![1, EITHER, 2])]
            );
            assert!(watched[0].is_several && candidates.doubts(0).contains("in one of these 2 loops"));
            let counted = |looks: &[(u64, u64)]| {
                let (functions, bursts) = (vec![0], vec![Bursts::default()]);
                let passed = Passed::default();
                let mut count = Count {
                    watched: watched.clone(),
                    functions,
                    passed,
                    first: None,
                    bursts,
                    in_step: vec![InStep::default()],
                    counts_calls: true,
                    seconds: 0.0,
                };
                for (least, most) in looks {
                    let least = vec![Passes { passes: *least, with_mpi: *least }];
                    count.note(Passed { least, most: vec![*most], pass_s: vec![1.0] }, 2.0, 2.0);
                }
                let functions = [FunctionInfo { name: "loop 1+2 of a".to_owned(), ..FunctionInfo::default() }];
                let said = none_taken(&functions, &count, 2.0).map(|why| why.to_string()).unwrap_or_default();
                (count.counted(&BTreeSet::new(), false)[0].passes.is_some(), said)
            };
            assert!(counted(&[(0, 300), (1310, 1611)]).0, "probes of one rank were in before those of the other");
            assert!(counted(&[(0, 0), (3, 4)]).0 && !counted(&[(0, 0), (3, 5)]).0, "few passes");
            assert!(!counted(&[(0, 300), (600, 600), (900, 1200)]).0, "one overtakes the other");
            let (is_taken, said) = counted(&[(0, 0), (30, 90)]);
            let is_said = said.contains("passed theirs 30 to 90 times in 2.0 s");
            assert!(!is_taken && is_said, "a worker and who hands out: {said}");
        }
    }

    /// Where only files are measured, nobody sees calls of MPI between two passes.
    #[test]
    fn without_probes_of_mpi_a_loop_of_all_ranks_is_one_that_they_pass_equally_often() {
        let mut sampled = node(5, &["a"]);
        sampled.loops[0].is_seen_in_mpi = false;
        let watched = Candidates::common(std::iter::once(sampled)).watched(&Mark::Auto);
        let choice = |looks: &[(u64, u64)], counts_calls: bool| {
            let mut count = Count {
                watched: watched.clone(),
                functions: vec![0],
                passed: Passed::default(),
                first: None,
                bursts: vec![Bursts::default()],
                in_step: vec![InStep::default()],
                counts_calls,
                seconds: 0.0,
            };
            for (least, most) in looks {
                let least = vec![Passes { passes: *least, with_mpi: 0 }];
                count.note(Passed { least, most: vec![*most], pass_s: vec![0.1] }, 2.0, 2.0);
            }
            choose_loop(&count.counted(&BTreeSet::new(), false), 2.0, 6.0)
        };
        assert_eq!(choice(&[(1, 1), (12, 12)], false), LoopChoice::Take(0));
        assert_eq!(choice(&[(1, 1), (12, 40)], false), LoopChoice::Nothing, "each rank has its own");
        assert_eq!(choice(&[(1, 1), (12, 12)], true), LoopChoice::Nothing, "none has a call");
    }

    /// A program may call MPI at its end only.
    #[test]
    fn a_loop_that_has_no_calls_is_not_taken_and_that_is_said() {
        let why_not = Some(NoLoop::OfStacks(NestUnknown::NothingInCommon));
        let mut none = Candidates { why_not, ..Candidates::default() };
        let counted = Passes { passes: 40, with_mpi: 0 };
        let name = "loop 1 of search".to_owned();
        none.note_counted(Some(NoLoop::WithoutCalls { name, counted, seconds: 2.0 }));
        let said = none.why_not.map(|why| why.to_string()).unwrap_or_default();
        assert!(
            said.starts_with("loop 1 of search was passed 40 times in 2.0 s, none of them with a call of MPI"),
            "{said}"
        );
        assert!(said.ends_with("; no stacks have a function in common"), "{said}");
    }

    #[test]
    fn loops_that_were_entered_since_are_named() {
        let nest = |loops: &[&str]| {
            let mut nest = Candidates::common([node(5, loops)].into_iter());
            nest.loops.iter_mut().for_each(|one| one.shown = format!("loop 1 of {}", one.function));
            nest
        };
        let before = Candidates { taken: Some(1), ..nest(&["main", "scf", "cg"]) };
        assert_eq!(before.new_around(&nest(&["main", "md", "scf", "ot"])), ["loop 1 of md"]);
        assert_eq!(before.new_around(&nest(&["main", "scf", "ot"])), Vec::<String>::new(), "it lies inside");
        assert_eq!(before.new_around(&nest(&["md"])), ["loop 1 of md"], "few stacks are in the loop itself");
        let untaken = nest(&["scf", "cg"]);
        assert_eq!(untaken.new_around(&nest(&["md", "scf"])), ["loop 1 of md"], "none was taken");
        assert_eq!(untaken.new_around(&nest(&["scf", "ot"])), Vec::<String>::new(), "it lies inside of what was known");
        let said = |now: &[&str]| untaken.outer(&nest(now)).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(said(&["scf", "ot"]), ["loop 1 of scf"], "those that still run");
        assert_eq!(said(&["md", "scf"]), Vec::<String>::new(), "another one lies around it by now");
    }

    #[test]
    fn loops_around_are_as_far_as_the_nodes_say_together() {
        let course = |to_come| LoopCourse { done: Some(9 - to_come), to_come, may_end_before: false, is_sure: true };
        let nest = |to_come: &[u64]| {
            let mut nest = node(5, &["main", "scf"]);
            nest.loops.iter_mut().for_each(|one| one.shown = format!("loop 1 of {}", one.function));
            for (one, to_come) in nest.loops.iter_mut().zip(to_come) {
                one.course = SampledCourse::Seen(course(*to_come));
            }
            nest
        };
        let before = Candidates { taken: Some(1), ..Candidates::common([nest(&[])].into_iter()) };
        let outer = |nodes: Vec<Sampled>| before.outer(&Candidates::common(nodes.into_iter()));
        let found = outer(vec![nest(&[4]), nest(&[5])]);
        assert_eq!(found.len(), 1, "of those around only: {found:?}");
        assert_eq!((found[0].done, found[0].to_come, found[0].is_likely), (Some(4), Some(5), false), "those behind");
        let apart = outer(vec![nest(&[4]), nest(&[6])]);
        assert!(apart[0].missing.as_ref().is_some_and(|why| why.contains("different passes")), "{apart:?}");
        assert!(outer(vec![nest(&[])])[0].missing.is_some(), "nobody looked");
        let unknown_around = Some(NestUnknown::Recursive { function: "c".to_owned() });
        assert_eq!(outer(vec![Sampled { unknown_around, ..nest(&[4]) }]), Vec::new(), "another may lie around it");
    }

    #[test]
    fn a_loop_that_was_asked_for_is_there_or_that_is_said() {
        let nest = Candidates::common([node(5, &["a", "b"])].into_iter());
        assert!(nest.clone().checked(&Mark::Nest(2)).is_ok() && nest.clone().checked(&Mark::Auto).is_ok());
        let said = nest.checked(&Mark::Nest(3)).expect_err("there are two").to_string();
        assert!(said.contains("2 loops were seen") && said.contains("trimtab loops"), "{said}");
    }

    #[test]
    fn ranks_are_looked_for_where_nothing_was_passed_for_a_while() {
        let mut stillness = Stillness::default();
        let mut at = |passes, seconds| stillness.is_time(passes, seconds, 2.0);
        assert_eq!([at(0, 1.9), at(0, 2.1), at(0, 4.0), at(0, 4.2)], [false, true, false, true]);
        assert_eq!([at(3, 5.0), at(4, 6.9), at(4, 8.8), at(4, 9.0)], [false, false, false, true]);
    }

    #[test]
    fn the_loop_of_an_earlier_window_needs_two_passes() {
        for (passes, seconds, expected) in [
            (2, 0.1, Some(LoopChoice::Take(4))),
            (0, 1.9, Some(LoopChoice::Wait)),
            (0, 2.1, None),
            (1, 2.9, Some(LoopChoice::Wait)),
            (1, 3.1, None),
        ] {
            assert_eq!(keep_to(4, passes, seconds, 6.0), expected, "{passes} passes in {seconds} s");
        }
    }

    /// A loop is taken although a pass of it was seen too seldom for the rule, if what is asked for fits.
    #[test]
    fn a_loop_that_was_taken_gives_way_only_if_its_iterations_do_not_fit() {
        let name = LoopName { function: String::new(), number: None };
        let one =
            |index| Watched { index, name: name.clone(), is_seen_in_mpi: true, is_several: false, is_hidden: false };
        let passed = |passes| Passes { passes, with_mpi: passes };
        let (least, most, pass_s) = (vec![passed(2), passed(60)], vec![2, 60], vec![1.0, 0.1]);
        let passed = Passed { least, most, pass_s };
        let bursts = vec![Bursts::default(); 2];
        let count = Count {
            watched: vec![one(0), one(1)],
            functions: vec![1, 2],
            passed,
            first: None,
            bursts,
            in_step: vec![],
            counts_calls: true,
            seconds: 2.0,
        };
        assert_eq!(count.fitting(0, Length::Iterations(4), None, 5.0), 0);
        assert_eq!(count.fitting(0, Length::Iterations(4), Some(6), 5.0), 1);
    }

    /// Ranks whose probes were in long before the first look have many passes by then.
    #[test]
    fn only_passes_between_looks_tell_that_a_loop_is_too_fast() {
        let name = LoopName { function: String::new(), number: None };
        let watched = vec![Watched { index: 0, name, is_seen_in_mpi: true, is_several: false, is_hidden: false }];
        let looked = |looks: &[(u64, f64, f64)]| {
            let (functions, bursts) = (vec![1], vec![Bursts::default()]);
            let mut count = Count {
                watched: watched.clone(),
                functions,
                passed: Passed::default(),
                first: None,
                bursts,
                in_step: vec![],
                counts_calls: true,
                seconds: 0.0,
            };
            for (passes, asked_s, seconds) in looks {
                let least = vec![Passes { passes: *passes, with_mpi: *passes }];
                count.note(Passed { least, most: vec![*passes], pass_s: vec![1e-4] }, *asked_s, *seconds);
            }
            count.too_fast(looks.last().map_or(0.0, |look| look.2), &Mark::Auto)
        };
        assert_eq!(looked(&[(900, 0.002, 0.003)]), None, "nobody knows since when");
        assert_eq!(looked(&[(900, 0.002, 0.003), (960, 0.006, 0.008)]), None, "8,000 passes a second");
        assert_eq!(looked(&[(900, 0.002, 0.003), (1900, 0.006, 0.008)]), Some(0));
        assert_eq!(looked(&[(900, 0.002, 0.060), (1900, 0.063, 0.065)]), None, "the first answer came late");
    }

    #[test]
    fn it_is_said_that_stacks_showed_no_loop() {
        let after = |looked: bool, why_not: Option<NoLoop>| {
            let pause_us_max = if looked { 50.0 } else { 0.0 };
            let mut none = Candidates { pause_us_max, why_not, ..Candidates::default() };
            none.note_none();
            none.why_not
        };
        assert_eq!(after(false, None), None, "nobody looked");
        assert_eq!(after(true, None), Some(NoLoop::NoneAround));
        let known = NoLoop::OfStacks(NestUnknown::NothingInCommon);
        assert_eq!(after(true, Some(known.clone())), Some(known), "what is known stays");
    }

    #[test]
    fn doubts_are_said_of_the_loop_that_is_taken() {
        let mut nest = Candidates::common([node(5, &["a", "b"])].into_iter());
        assert_eq!(nest.doubts(1), "");
        nest.loops[1].copies = 4;
        assert_eq!(nest.doubts(0), "");
        assert!(nest.doubts(1).ends_with("a pass may be 4 iterations"));
        nest.unknown_around = Some(NestUnknown::Recursive { function: "c".to_owned() });
        assert!(nest.doubts(0).starts_with("; a loop around it may not be known: c calls itself"));
    }

    #[test]
    fn passes_without_calls_are_told() {
        let said = |passes, with_mpi| seldom_with_calls(Passes { passes, with_mpi });
        assert_eq!([said(100, 95), said(9, 1), said(0, 0)], ["", "", ""]);
        assert_eq!(said(100, 42), "; only 42% of its passes have calls of MPI");
    }

    #[test]
    fn the_nest_is_described_around_the_loop_that_is_taken() {
        let place =
            |line| Some(LoopPlace { file: Some("a/md.c".to_owned()), line: Some(line), ..LoopPlace::default() });
        let info =
            |name: &str, loop_place| FunctionInfo { name: name.to_owned(), loop_place, ..FunctionInfo::default() };
        let functions = [info("MPI_Send", None), info("loop 1 of main", place(9)), info("loop 1 of solve", place(3))];
        assert_eq!(functions_of(&functions, 2), [1, 2]);
        assert_eq!(functions_of(&functions, 3), []);
        let one = |index| Watched {
            index,
            name: LoopName { function: String::new(), number: Some(vec![1]) },
            is_seen_in_mpi: true,
            is_several: false,
            is_hidden: false,
        };
        let count = |passes: [u64; 2]| Count {
            watched: vec![one(0), one(1)],
            functions: vec![1, 2],
            first: None,
            in_step: vec![],
            counts_calls: true,
            seconds: 2.0,
            bursts: vec![Bursts::default(); 2],
            passed: Passed {
                least: passes.map(|passes| Passes { passes, with_mpi: passes }).to_vec(),
                most: passes.to_vec(),
                pass_s: vec![1.0, 0.1],
            },
        };
        assert_eq!(
            description(&functions, &count([10, 65]), 0, 2.0, &[]),
            "the outermost of the program's loops that run; inside of it runs loop 1 of solve at md.c:3"
        );
        let said = |around| description(&functions, &count([around, 65]), 1, 2.0, &[]);
        assert_eq!(said(1), "a loop of the program, inside of loop 1 of main at md.c:9 (1 pass), counted for 2.0 s");
        assert!(said(0).ends_with("at md.c:9, of which no pass began in the 2.0 s in which passes were counted"));
        let briefly = description(&functions, &count([0, 65]), 1, 0.03, &[]);
        assert!(briefly.ends_with("of which no pass began in the 30 ms in which passes were counted"), "{briefly}");
        let mut nest = Candidates::common([node(5, &["main", "solve"])].into_iter());
        assert_eq!(nest.not_counted_around(&count([10, 65]), 1), Vec::<String>::new());
        (nest.loops[0].why_not, nest.loops[0].shown) = (Some(NoIterations::NotInMpi), "loop 1 of main".to_owned());
        let hidden = Count { watched: vec![Watched { is_hidden: true, ..one(0) }, one(1)], ..count([0, 65]) };
        let around = nest.not_counted_around(&hidden, 1);
        let said = description(&functions, &hidden, 1, 2.0, &around);
        assert_eq!(
            said,
            "a loop of the program, inside of loop 1 of main, which can't be counted (no stack in it is in MPI): an iteration of the program \
             may be a pass of that"
        );
    }
}
