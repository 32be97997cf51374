//! How often loops are passed in the ranks of a job: a script of one probe per loop, and of the MPI calls beside them.
//!
//! A loop that is passed very often costs the program more than it tells: it is taken out at once, and said to be an inner
//! one. Where several threads pass a loop, the passes of the one that passes it most often are told.
//!
//! Next: `run`, which carries the script; `trimtab-measure`'s `NestSampler` for where the loops come from.

use crate::debug::{DebugFacts, DebugFiles, DebugSections};
use crate::error::Error;
use crate::nest_counter::{CounterRead, NoProgress};
use crate::request::Summary;
use crate::run::Running;
use crate::source::ScriptOptions;
use crate::target::Target;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use trimtab_measure::{PASSES_PER_SECOND_MAX, called_mpi, dotted};
use trimtab_session::{ImageCache, Inner, LoopProgress, Modules, Obstacle, each_of};
use trimtab_snippet::arithmetic::Number;
use trimtab_snippet::values::{Named, Value};
use trimtab_types::ProcAddr;

/// Passes that a new probe must have seen before its loop is called too fast.
const PASSES_JUDGED_MIN: u64 = 2000;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A loop to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopPoint {
    /// Its function as scripts name it: `0x1139@app`.
    pub function: String,
    /// Its number in that, or those of several of which each rank is in one ([`each_of`]).
    pub number: Vec<u32>,
    /// Points that each pass goes through, which are counted where the loop can't be.
    pub witness: Vec<String>,
}

impl LoopPoint {
    /// The text that names it in a script.
    pub fn text(&self) -> String {
        let name = self.function.replace('\\', "\\\\").replace('"', "\\\"");
        let one = |number: &[u32]| format!("loop \"{name}:{}\"", dotted(number));
        each_of(&self.number).map(one).collect::<Vec<_>>().join(", ")
    }
}

/// The passes of one rank through a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoopPasses {
    /// Passes.
    pub passes: u64,
    /// Passes before which MPI was called since the pass before; `None`: its calls are not counted.
    pub with_mpi: Option<u64>,
    /// From the first pass to the last, nanoseconds.
    pub span_ns: u64,
    /// Calls of MPI in that time; `None`: they are not counted.
    pub mpi_calls: Option<u64>,
}

/// Why a loop is not counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCounted {
    /// It can't be probed.
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    /// The program would feel the counting.
    #[error("it is passed more than {PASSES_PER_SECOND_MAX:.0} times a second")]
    TooFast,
    /// Its passes are in the count of another loop.
    #[error("each rank is in it or on the other side of a branch, and passes of both are counted as loop {whole}")]
    Together {
        /// The number of that loop in the nest.
        whole: usize,
    },
    /// The script that counts it was refused.
    #[error("{0}")]
    Script(String),
}

/// The facts that were found out of a loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopCount {
    /// By rank; of ranks whose process is not known to be one, -1.
    pub ranks: BTreeMap<i64, LoopPasses>,
    /// Why it is not counted.
    pub not_counted: Option<NotCounted>,
    /// How often a rank passed its witness at most, where that is counted in its place.
    pub witnessed: Option<u64>,
    /// How far ranks were in it when they passed it last, once the probes are out; the error: why that is not known.
    pub progress: Option<Result<BTreeMap<i64, LoopProgress>, NoProgress>>,
}

impl LoopCount {
    /// It is not counted, and not because it is passed too often.
    pub fn can_not_be_counted(&self) -> bool {
        self.not_counted.as_ref().is_some_and(|reason| *reason != NotCounted::TooFast)
    }
}

/// Loops that are being counted. Dropping it takes the probes out.
pub struct CountedLoops<'c> {
    points: Vec<LoopPoint>,
    targets: Vec<Target>,
    options: ScriptOptions,
    cache: &'c ImageCache,
    mpi: Vec<&'static str>,
    running: Option<Running>,
    not_counted: Vec<Option<NotCounted>>,
    counters: Vec<Result<CounterRead, NoProgress>>,
    /// Counted by scripts that were replaced.
    before: Vec<LoopCount>,
    cost: Summary,
}

impl<'c> CountedLoops<'c> {
    /// Puts the probes in. Loops that can't be counted are told in [`CountedLoops::counts`].
    ///
    /// # Errors
    /// [`Error`] if a process can't be changed at all.
    pub fn start(
        points: Vec<LoopPoint>,
        targets: Vec<Target>,
        seccomp_ok: bool,
        cache: &'c ImageCache,
    ) -> Result<Self, Error> {
        let mut not_counted = vec![None; points.len()];
        let mut mpi = Vec::new();
        let mut counters = Vec::new();
        if let Some(first) = targets.first() {
            let modules = Modules::read(first.pid, cache, &|_| true).map_err(Error::of(first.pid))?;
            mpi = communicating(&modules, cache);
            for (point, not) in points.iter().zip(&mut not_counted) {
                *not = why_not(&modules, point).map(NotCounted::Obstacle);
            }
            let loops = points.iter().map(|point| (begins(&modules, point), point.number.as_slice()));
            counters = CounterRead::of_all(&modules, loops);
        }
        let (options, before) =
            (ScriptOptions { seccomp_ok, ..ScriptOptions::default() }, vec![LoopCount::default(); points.len()]);
        let cost = Summary::default();
        let mut counted =
            CountedLoops { points, targets, options, cache, mpi, running: None, not_counted, counters, before, cost };
        counted.insert()?;
        Ok(counted)
    }

    /// Puts in what is still to be counted. Where two places need the same bytes, the inner one gives way.
    fn insert(&mut self) -> Result<(), Error> {
        loop {
            let counted: Vec<usize> =
                (0..self.points.len()).filter(|index| self.not_counted[*index].is_none()).collect();
            let witnessed = self.witnessed();
            if counted.is_empty() && witnessed.is_empty() {
                return Ok(());
            }
            let options = ScriptOptions { text: self.text(&counted, &witnessed), ..self.options.clone() };
            match Running::start(&self.targets, &options, self.cache) {
                Ok(running) => {
                    self.running = Some(running);
                    return Ok(());
                }
                // The loop that stands in for others goes first.
                Err(error @ (Error::Script(_) | Error::NoPlace { .. })) => match (witnessed.last(), counted.last()) {
                    (Some(last), _) => self.points[*last].witness.clear(),
                    (None, Some(innermost)) => self.not_counted[*innermost] = Some(NotCounted::Script(error.reason())),
                    (None, None) => return Ok(()),
                },
                Err(error) => return Err(error),
            }
        }
    }

    /// Loops in whose place something else is counted.
    fn witnessed(&self) -> Vec<usize> {
        let is_witnessed = |index: &usize| {
            let why = self.not_counted[*index].as_ref();
            why.is_some_and(|why| *why != NotCounted::TooFast) && !self.points[*index].witness.is_empty()
        };
        (0..self.points.len()).filter(is_witnessed).collect()
    }

    fn text(&self, counted: &[usize], witnessed: &[usize]) -> String {
        let mut text = String::from("thread int nest_mpi;\n");
        for index in counted {
            let n = index;
            let _ = writeln!(
                text,
                "thread int nest_p{n}; thread int nest_w{n}; thread int nest_s{n}; thread int nest_f{n};\n\
                 thread int nest_l{n}; thread int nest_a{n}; thread int nest_b{n};\n\
                 {} {{ if (nest_p{n} == 0) {{ nest_f{n} = now; nest_a{n} = nest_mpi; nest_s{n} = nest_mpi }}\n\
                 if (nest_mpi != nest_s{n}) {{ nest_w{n} = nest_w{n} + 1; nest_s{n} = nest_mpi }}\n\
                 {}nest_p{n} = nest_p{n} + 1; nest_l{n} = now; nest_b{n} = nest_mpi }}",
                self.points[*index].text(),
                self.counters[*index].as_ref().map_or_else(|_| String::new(), |read| read.text(n)),
            );
            if self.counters[*index].is_ok() {
                let _ = writeln!(text, "{}", CounterRead::variables(n));
            }
        }
        for index in witnessed {
            let places = self.points[*index].witness.join(", ");
            let _ = writeln!(text, "thread int nest_v{index};\n{places} {{ nest_v{index} = nest_v{index} + 1 }}");
        }
        if !self.mpi.is_empty() {
            let _ = writeln!(text, "entry {} {{ nest_mpi = nest_mpi + 1 }}", self.mpi.join(", "));
        }
        text
    }

    /// Time since the probes are in.
    pub fn elapsed(&self) -> Duration {
        self.running.as_ref().map_or(Duration::ZERO, Running::elapsed)
    }

    /// Waits for a moment; takes out loops that are passed too often. False: no process runs any more, or the probes had
    /// to go.
    ///
    /// # Errors
    /// As [`CountedLoops::start`].
    pub fn wait(&mut self) -> Result<bool, Error> {
        let Some(running) = self.running.as_mut() else { return Ok(false) };
        running.wait(Some(LOOK));
        let poll = running.poll();
        if poll.alive == 0 || poll.has_new_handler {
            return Ok(false);
        }
        let elapsed_s = running.elapsed().as_secs_f64();
        let values = running.values();
        let too_fast: Vec<usize> = (0..self.points.len())
            .filter(|index| self.not_counted[*index].is_none())
            .filter(|index| {
                let of_ranks = self.passes(&values, *index);
                of_ranks.into_values().any(|one| is_too_fast(one, elapsed_s))
            })
            .collect();
        if !too_fast.is_empty() {
            self.replace(&too_fast)?;
        }
        Ok(true)
    }

    /// Goes on without some loops.
    fn replace(&mut self, without: &[usize]) -> Result<(), Error> {
        self.finish_running();
        for index in without {
            self.not_counted[*index] = Some(NotCounted::TooFast);
        }
        self.insert()
    }

    fn finish_running(&mut self) {
        let Some(running) = self.running.take() else { return };
        let (_, values, summary) = running.finish();
        for index in 0..self.points.len() {
            match self.not_counted[index] {
                None => {
                    self.before[index].ranks = self.passes(&values, index);
                    let read = self.counters[index].as_ref().map_err(Clone::clone);
                    self.before[index].progress = Some(read.and_then(|counter| {
                        counter.progress(&|letter| of_ranks(&values, &format!("nest_{letter}{index}")))
                    }));
                }
                Some(_) => self.before[index].witnessed = self.seen(&values, index),
            }
        }
        self.cost = std::mem::take(&mut self.cost).and(summary);
    }

    /// The counts of each loop since the probes are in.
    pub fn counts(&self) -> Vec<LoopCount> {
        let values = self.running.as_ref().map(Running::values);
        let count = |index: usize| match (&self.not_counted[index], &values) {
            (Some(reason), values) => {
                let witnessed = values.as_ref().map_or(self.before[index].witnessed, |values| self.seen(values, index));
                LoopCount { not_counted: Some(reason.clone()), witnessed, ..LoopCount::default() }
            }
            (None, Some(values)) => LoopCount { ranks: self.passes(values, index), ..LoopCount::default() },
            (None, None) => self.before[index].clone(),
        };
        (0..self.points.len()).map(count).collect()
    }

    /// Takes the probes out: what was counted, and what it cost.
    pub fn finish(mut self) -> (Vec<LoopCount>, Summary) {
        self.finish_running();
        (self.counts(), std::mem::take(&mut self.cost))
    }

    /// How often the rank that passed it most passed a loop's witness; `None`: that is not counted.
    fn seen(&self, values: &[Named], index: usize) -> Option<u64> {
        let of_ranks = of_ranks(values, &format!("nest_v{index}"));
        let most = of_ranks.values().flatten().max().map_or(0, |most| *most as u64);
        self.witnessed().contains(&index).then_some(most)
    }

    fn passes(&self, values: &[Named], index: usize) -> BTreeMap<i64, LoopPasses> {
        let read = |letter: char| of_ranks(values, &format!("nest_{letter}{index}"));
        let (with_mpi, first, last) = (read('w'), read('f'), read('l'));
        let (mpi_first, mpi_last) = (read('a'), read('b'));
        let most =
            |of: &BTreeMap<i64, Vec<i64>>, rank| of.get(&rank).and_then(|own| own.iter().max()).copied().unwrap_or(0);
        let least =
            |of: &BTreeMap<i64, Vec<i64>>, rank| of.get(&rank).and_then(|own| own.iter().min()).copied().unwrap_or(0);
        let passes = |(rank, own): (i64, Vec<i64>)| {
            // The calls that several threads make are not known to be of one's passes.
            let is_counted = !self.mpi.is_empty() && own.len() == 1;
            let counted = LoopPasses {
                passes: own.iter().max().copied().unwrap_or(0) as u64,
                with_mpi: (!self.mpi.is_empty()).then(|| most(&with_mpi, rank) as u64),
                span_ns: (most(&last, rank) - least(&first, rank)).max(0) as u64,
                mpi_calls: is_counted.then(|| (most(&mpi_last, rank) - least(&mpi_first, rank)).max(0) as u64),
            };
            (rank, counted)
        };
        let mut found: BTreeMap<i64, LoopPasses> = read('p').into_iter().map(passes).collect();
        // A rank that has not passed it yet has passed it 0 times.
        for target in &self.targets {
            found.entry(target.rank_number()).or_default();
        }
        found
    }
}

/// Probes are in some ranks before the time since they are in all of them begins.
fn is_too_fast(passed: LoopPasses, elapsed_s: f64) -> bool {
    let counted_s = elapsed_s.max(passed.span_ns as f64 / 1e9);
    passed.passes >= PASSES_JUDGED_MIN && passed.passes as f64 > PASSES_PER_SECOND_MAX * counted_s
}

/// A variable of each rank's threads that have set it.
fn of_ranks(values: &[Named], name: &str) -> BTreeMap<i64, Vec<i64>> {
    let mut found: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let value = values.iter().find(|named| named.name == name).and_then(|named| named.value.as_ref());
    let Some(Value::Each { values }) = value else { return found };
    for own in values {
        let value = match own.value {
            Number::Int(value) => value,
            Number::Float(value) => value as i64,
        };
        found.entry(own.rank).or_default().push(value);
    }
    found
}

/// Functions of MPI that the program calls and that concern others, by their C names.
fn communicating(modules: &Modules, cache: &ImageCache) -> Vec<&'static str> {
    let is_there = |name: &&&str| modules.definition(name).is_some();
    let used = called_mpi(modules, cache).unwrap_or_default();
    let names: Vec<&str> = used.iter().filter(is_there).copied().collect();
    let is_communication =
        |name: &&str| trimtab_mpi::canonical(name).is_some_and(|function| function.is_in(trimtab_mpi::Group::Comm));
    names.into_iter().filter(is_communication).collect()
}

/// The start of a loop's function in the process.
fn begins(modules: &Modules, point: &LoopPoint) -> Option<ProcAddr> {
    let (start, name) = point.function.split_once('@')?;
    let start = u64::from_str_radix(start.strip_prefix("0x")?, 16).ok()?;
    let module = modules.modules.iter().find(|module| module.file_name() == name)?;
    Some(module.bias.to_proc(trimtab_types::FileAddr(start)))
}

/// Why a loop can't be probed in these modules; `None`: it can, or only trying shows it.
fn why_not(modules: &Modules, point: &LoopPoint) -> Option<Obstacle> {
    let function = begins(modules, point)?;
    let looked = |inside: &trimtab_session::Inside<'_>| {
        each_of(&point.number).find_map(|number| inside.place(&Inner::Loop(number.to_vec())).err())
    };
    modules.look_inside(function, looked).unwrap_or_else(Some)
}

/// The source line that an instruction was made of, as `FILE:LINE` without folders; `None` without debugging information.
pub fn line_at(modules: &Modules, address: ProcAddr) -> Option<String> {
    let files = DebugFiles::of(modules);
    let sections = DebugSections::of(&files);
    DebugFacts::new(&sections).line_at(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_named_by_where_its_function_begins() {
        let point = |function: &str| {
            LoopPoint { function: function.to_owned(), number: vec![1, 2], witness: Vec::new() }.text()
        };
        assert_eq!(point("0x1139@lmp"), "loop \"0x1139@lmp:1.2\"");
        assert_eq!(point("0x1139@a\"b"), "loop \"0x1139@a\\\"b:1.2\"");
        let number = [&[1, 1][..], &[1, 2]].join(&trimtab_session::EITHER);
        let several = LoopPoint { function: "0x1139@a".to_owned(), number, witness: Vec::new() };
        assert_eq!(several.text(), "loop \"0x1139@a:1.1\", loop \"0x1139@a:1.2\"");
        assert!(trimtab_snippet::parse(&format!("{} {{ n++ }}", several.text())).is_ok());
        for text in [point("0x1139@lmp"), point("0x1139@a b:c")] {
            assert!(trimtab_snippet::parse(&format!("{text} {{ n++ }}")).is_ok(), "{text}");
        }
    }
}
