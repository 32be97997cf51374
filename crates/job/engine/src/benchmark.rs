//! Runs of a routine at several sizes, with repetitions, in an order that is shuffled and known.
//!
//! A run that others disturbed is repeated while there is time. Where too many were, processor time stands for time, and
//! that is said. Next: `trimtab-routine`, which makes a model of them.

use crate::event::{Event, Listener, Stage};
use crate::routine_command::RoutineCommand;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_os::{RunEnd, TimedRun, run_timed};
use trimtab_routine::{Basis, Measurement, Ran, Unit, check};

/// A run was disturbed if it waited for a processor for this share of its time
const WAITED_MAX: f64 = 0.02;
/// and this long, seconds;
const WAITED_MIN_S: f64 = 0.001;
/// or, of several threads, if others had so much of all processors.
const OTHERS_MAX: f64 = 0.05;
/// More processor time than wall time by this factor is of several threads.
const THREADS: f64 = 1.2;
/// Runs of one size, as many times as were asked for, at most.
const TRIES: usize = 2;
/// Where more than this share of sizes has no run that was not disturbed, time is processor time.
const DISTURBED_MAX: f64 = 0.2;

/// A routine that is to be run at sizes.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// The routine.
    pub command: RoutineCommand,
    /// Runs before each of its runs; neither its time nor its memory counts.
    pub setup: Option<RoutineCommand>,
    /// Names of the parameters.
    pub parameters: Vec<String>,
    /// The sizes of all parameters at each place.
    pub places: Vec<Vec<f64>>,
    /// Runs at each place.
    pub repeat: u32,
    /// One run takes so long at most.
    pub timeout: Duration,
    /// All runs together do.
    pub within: Duration,
    /// The order of runs comes from this number.
    pub seed: u64,
}

/// All runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Benchmarked {
    /// In their order.
    pub runs: Vec<Ran>,
    /// Sizes at which a run took too long, or for which no time was left.
    pub left_out: Vec<Vec<f64>>,
    /// True if the user ended it.
    pub interrupted: bool,
}

/// Why a routine can't be run.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    /// It can't be started.
    #[error("can't run `{command}`")]
    NotStarted {
        /// Its words.
        command: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It failed.
    #[error("`{command}` {how}: a routine that fails is not measured")]
    Failed {
        /// Its words.
        command: String,
        /// How it ended.
        how: String,
    },
}

impl Benchmark {
    /// Runs it at all places.
    ///
    /// # Errors
    /// The routine can't be started, or fails.
    pub fn run(&self, listener: &dyn Listener) -> Result<Benchmarked, BenchmarkError> {
        let begun = Instant::now();
        let mut found = Benchmarked::default();
        let mut slow: Vec<Vec<f64>> = Vec::new();
        // The first run reads files that later ones find in memory.
        let smallest = self.places.first().map(|place| (place.clone(), 1));
        let turns = (0..self.repeat + u32::from(self.command.has_value())).map(|turn| self.turn(turn));
        let planned: Vec<(Vec<f64>, u32)> = turns.flatten().collect();
        let of = planned.len();
        for (number, (at, value)) in smallest.into_iter().chain(planned).enumerate() {
            if begun.elapsed() >= self.within || listener.is_interrupted() {
                found.interrupted = listener.is_interrupted();
                break;
            }
            if slow.iter().any(|slow| slow.iter().zip(&at).all(|(slow, size)| size >= slow)) {
                continue;
            }
            listener.hear(&Event::Stage(Stage::Running { done: number.saturating_sub(1), of, at: self.words(&at) }));
            match self.one(&at, value, begun, listener)? {
                Some(ran) if number > 0 => found.runs.push(ran),
                Some(_) => {}
                None if listener.is_interrupted() => {}
                None => slow.push(at),
            }
        }
        self.repeat_disturbed(&mut found, begun, listener)?;
        found.interrupted |= listener.is_interrupted();
        let is_known = |place: &&Vec<f64>| !found.runs.iter().any(|ran| ran.at == **place);
        found.left_out = self.places.iter().filter(is_known).cloned().collect();
        Ok(found)
    }

    /// Repeats what others disturbed, while there is time.
    fn repeat_disturbed(
        &self,
        found: &mut Benchmarked,
        begun: Instant,
        listener: &dyn Listener,
    ) -> Result<(), BenchmarkError> {
        let most = self.repeat as usize * TRIES;
        for _ in 0..self.repeat {
            for at in &self.places {
                let (all, quiet) = (of_place(&found.runs, at), quiet_of_place(&found.runs, at));
                let is_over = begun.elapsed() >= self.within || listener.is_interrupted();
                if is_over || all == 0 || all >= most || quiet >= self.repeat as usize {
                    continue;
                }
                let stage = Stage::Running { done: found.runs.len(), of: found.runs.len(), at: self.words(at) };
                listener.hear(&Event::Stage(stage));
                let value = all as u32 % self.repeat + 1;
                found.runs.extend(self.one(at, value, begun, listener)?);
            }
        }
        Ok(())
    }

    /// All places in one shuffled order, with the number that stands for {value}. Behind the last turn the first is repeated.
    fn turn(&self, turn: u32) -> Vec<(Vec<f64>, u32)> {
        let mut places: Vec<(Vec<f64>, u32)> =
            self.places.iter().map(|place| (place.clone(), turn % self.repeat + 1)).collect();
        let mut random = self.seed.wrapping_add(u64::from(turn)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for place in (1..places.len()).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            places.swap(place, (random % (place as u64 + 1)) as usize);
        }
        places
    }

    /// One run; `None`: it took too long, or was ended.
    fn one(
        &self,
        at: &[f64],
        value: u32,
        begun: Instant,
        listener: &dyn Listener,
    ) -> Result<Option<Ran>, BenchmarkError> {
        if let Some(setup) = &self.setup
            && self.timed(setup, at, value, begun, listener)?.is_none()
        {
            return Ok(None);
        }
        let run = self.timed(&self.command, at, value, begun, listener)?;
        Ok(run.map(|run| Ran {
            at: at.to_vec(),
            value,
            wall_s: run.wall_s,
            cpu_s: run.cpu_s,
            waited_s: run.waited_s,
            others_share: run.others_share,
            memory_bytes: run.memory_bytes,
            disturbed: is_disturbed(&run),
        }))
    }

    fn timed(
        &self,
        command: &RoutineCommand,
        at: &[f64],
        value: u32,
        begun: Instant,
        listener: &dyn Listener,
    ) -> Result<Option<TimedRun>, BenchmarkError> {
        let words = command.at(&self.parameters, at, value);
        let said = || words.join(" ");
        let mut program = Command::new(&words[0]);
        program.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
        let limit = self.timeout.min(self.within.saturating_sub(begun.elapsed()));
        let run = run_timed(&mut program, limit, &|| listener.is_interrupted())
            .map_err(|source| BenchmarkError::NotStarted { command: said(), source })?;
        match run.end {
            RunEnd::Exited(0) => Ok(Some(run)),
            RunEnd::TimedOut | RunEnd::Interrupted => Ok(None),
            RunEnd::Exited(code) => {
                Err(BenchmarkError::Failed { command: said(), how: format!("ended with code {code}") })
            }
            RunEnd::Signal(signal) => {
                Err(BenchmarkError::Failed { command: said(), how: format!("was ended by signal {signal}") })
            }
        }
    }

    fn words(&self, at: &[f64]) -> String {
        let words: Vec<String> = self.parameters.iter().zip(at).map(|(name, size)| format!("{name}={size}")).collect();
        words.join(" ")
    }
}

fn of_place(runs: &[Ran], at: &[f64]) -> usize {
    runs.iter().filter(|ran| ran.at == at).count()
}

fn spread_of_cpu(runs: &[Ran]) -> Option<f64> {
    spread_of_same(runs.iter().map(|ran| (ran, ran.cpu_s)))
}

fn spread_of_wall(runs: &[Ran]) -> Option<f64> {
    let undisturbed = runs.iter().filter(|ran| !ran.disturbed);
    spread_of_same(undisturbed.map(|ran| (ran, ran.wall_s))).or_else(|| spread_of_cpu(runs))
}

fn spread_of_same<'a>(runs: impl Iterator<Item = (&'a Ran, f64)>) -> Option<f64> {
    let runs: Vec<(&Ran, f64)> = runs.collect();
    let mut shares = Vec::new();
    for (number, (ran, value)) in runs.iter().enumerate() {
        let same = runs[number + 1..].iter().find(|(other, _)| other.at == ran.at && other.value == ran.value);
        // Half the difference of two is 0.886 of a normal variable's standard deviation, on the average.
        shares.extend(same.map(|(_, other)| 0.886 * 2.0 * (value - other).abs() / (value + other)));
    }
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied().filter(|share| share.is_finite())
}

fn quiet_of_place(runs: &[Ran], at: &[f64]) -> usize {
    runs.iter().filter(|ran| ran.at == at && !ran.disturbed).count()
}

fn is_disturbed(run: &TimedRun) -> bool {
    let waited = run.waited_s.unwrap_or(0.0);
    let by_waiting = waited > (WAITED_MAX * run.wall_s).max(WAITED_MIN_S);
    let has_threads = run.cpu_s > THREADS * run.wall_s;
    // Only the first thread's waiting is known.
    let is_open = has_threads || run.waited_s.is_none();
    by_waiting || is_open && run.others_share.is_some_and(|share| share > OTHERS_MAX)
}

impl Benchmarked {
    /// Wall time, unless at too many sizes all runs were disturbed.
    pub fn basis(&self, parameters: &[String]) -> Basis {
        let mut places: Vec<&Vec<f64>> = self.runs.iter().map(|ran| &ran.at).collect();
        places.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
        places.dedup();
        let disturbed = places.iter().filter(|at| quiet_of_place(&self.runs, at) == 0).count();
        let is_few = disturbed as f64 <= DISTURBED_MAX * places.len() as f64;
        // The sizes that are left must still be enough for a model.
        match disturbed == 0 || is_few && check(parameters, &self.times(Basis::Wall)).is_ok() {
            true => Basis::Wall,
            false => Basis::Cpu,
        }
    }

    /// True if the routine has several threads or processes that compute at the same time.
    pub fn has_threads(&self) -> bool {
        self.runs.iter().any(|ran| ran.cpu_s > THREADS * (ran.wall_s - ran.waited_s.unwrap_or(0.0)) && ran.cpu_s > 0.05)
    }

    /// How many runs others disturbed.
    pub fn disturbed(&self) -> usize {
        self.runs.iter().filter(|ran| ran.disturbed).count()
    }

    /// Times for a model: of wall time those of runs that were not disturbed.
    pub fn times(&self, basis: Basis) -> Vec<Measurement> {
        let value = |ran: &Ran| match basis {
            Basis::Wall => (!ran.disturbed).then_some(ran.wall_s),
            Basis::Cpu => Some(ran.cpu_s),
        };
        self.measurements(Unit::Seconds, value)
    }

    /// Memory for a model.
    pub fn memory(&self) -> Vec<Measurement> {
        self.measurements(Unit::Bytes, |ran| ran.memory_bytes.map(|bytes| bytes as f64))
    }

    /// The typical spread of runs of the very same work, as a share; `None`: no value was used twice at one place. Of wall time
    /// only runs count that nobody disturbed; where no two of these are the same work, processor time says it.
    pub fn quiet(&self, basis: Basis) -> Option<f64> {
        match basis {
            Basis::Cpu => spread_of_cpu(&self.runs),
            Basis::Wall => spread_of_wall(&self.runs),
        }
    }

    fn measurements(&self, unit: Unit, value: impl Fn(&Ran) -> Option<f64>) -> Vec<Measurement> {
        let mut found: Vec<Measurement> = Vec::new();
        for ran in &self.runs {
            let Some(value) = value(ran) else { continue };
            match found.iter_mut().find(|known| known.at == ran.at) {
                Some(known) => known.values.push(value),
                None => found.push(Measurement { at: ran.at.clone(), values: vec![value], unit }),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(value: u32, wall_s: f64, cpu_s: f64, disturbed: bool) -> Ran {
        let (waited_s, others_share, memory_bytes) = (None, None, None);
        Ran { at: vec![1.0], value, wall_s, cpu_s, waited_s, others_share, memory_bytes, disturbed }
    }

    #[test]
    fn a_run_that_others_disturbed_says_nothing_of_the_spread_of_wall_time() {
        let close = |found: Option<f64>, expected: f64| found.is_some_and(|found| (found - expected).abs() < 1e-9);
        let disturbed = [ran(1, 3.0, 1.0, true), ran(1, 1.0, 1.02, false)];
        assert!(close(spread_of_wall(&disturbed), 0.886 * 2.0 * 0.02 / 2.02), "processor time says it");
        let same = [&disturbed[..], &[ran(2, 1.0, 1.0, false), ran(2, 1.5, 1.0, false)]].concat();
        assert!(close(spread_of_wall(&same), 0.886 * 2.0 * 0.5 / 2.5));
        assert_eq!(spread_of_wall(&[ran(1, 1.0, 1.0, false), ran(2, 2.0, 2.0, false)]), None, "other work each");
    }
}
