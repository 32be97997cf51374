//! The torture as a whole: each program undisturbed once, then again and again under torture until its time is used up.
//!
//! Next: `target` for what is done to a process.

use crate::crash::backtrace;
use crate::cycle::Functions;
use crate::outcome::{Failure, FailureKind, Outcome, Pauses, ProgramOutcome, Shares};
use crate::programs::{PROGRAMS, Program};
use crate::random::Random;
use crate::run::{End, Run};
use crate::target::{Tally, TortureState};
use crate::text::Files;
use crate::tree;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use trimtab_session::ImageCache;
use trimtab_types::Pid;

/// The programs to torture, how long, and with which choices.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time for all programs together; undisturbed runs and surveys come on top.
    pub budget: Duration,
    /// Names; none: all.
    pub programs: Vec<String>,
    /// Same seed, same choices.
    pub seed: u64,
    /// The program that has the command `inserter`.
    pub executable: PathBuf,
    /// True if every function of every file is looked at.
    pub survey: bool,
}

/// An undisturbed run takes at most this long.
const UNDISTURBED_MAX: Duration = Duration::from_secs(180);
/// Undisturbed runs until one ends well.
const UNDISTURBED_TRIES: usize = 3;
/// A tortured run takes at most this many times as long, and this much more.
const SLOWER_MAX: u32 = 20;
const LONGER_MAX: Duration = Duration::from_secs(90);
/// We are stuck in one process when nothing was finished for so long.
const STUCK_MAX: Duration = Duration::from_secs(150);
/// Failures of one program after which it is given up.
const FAILURES_MAX: usize = 4;
/// Bytes of differing output that are shown.
const SHOWN_BYTES: usize = 600;
/// Of 1000 visits, those to a process that is running right now, if there is one.
const RUNNING_IN_THOUSAND: u64 = 700;

/// Runs the torture.
///
/// # Errors
/// When nothing can be run at all; what breaks in programs is in the outcome.
pub fn campaign(options: &Options) -> Result<Outcome> {
    let folder = std::env::temp_dir().join(format!("trimtab-torture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let started = Instant::now();
    let mut outcome = Outcome { seed: options.seed, budget_s: options.budget.as_secs(), ..Outcome::default() };
    let wanted = |program: &&Program| options.programs.is_empty() || options.programs.iter().any(|n| n == program.name);
    let (ready, lacking): (Vec<_>, Vec<_>) = PROGRAMS.iter().filter(wanted).partition(|p| p.lacks().is_none());
    for program in lacking {
        let reason = program.lacks().unwrap_or_default();
        println!("SKIPPED: torture[{}]: {reason}", program.name);
        outcome.skipped.insert(program.name.to_string(), reason);
    }
    let mut state = TortureState {
        cache: ImageCache::in_memory(),
        text: Files::default(),
        surveys: BTreeMap::new(),
        survey_time: Duration::ZERO,
        surveying: options.survey,
        executable: options.executable.clone(),
        cache_home: folder.join("cache"),
        seen: HashSet::new(),
    };
    let mut functions = Functions::new();
    let share = options.budget / ready.iter().map(|program| program.shares()).sum::<u32>().max(1);
    let watch = Watch::begin();
    for program in ready {
        let share = share * program.shares();
        let mut session =
            Session { program, seed: options.seed, share, folder: &folder, state: &mut state, watch: &watch };
        let tally = session.torture()?;
        for (file, addresses) in &tally.functions {
            functions.entry(file.clone()).or_default().extend(addresses);
        }
        let program = finished(tally, &state.surveys);
        println!("{}", crate::table::progress(&program));
        outcome.programs.push(program);
    }
    state.surveys.values().for_each(|shares| outcome.shares.add(shares));
    outcome.functions_instrumented = functions.values().map(|addresses| addresses.len() as u64).sum();
    outcome.elapsed_s = started.elapsed().as_secs_f64();
    if outcome.failure_count() == 0 {
        std::fs::remove_dir_all(&folder).context("cannot remove the torture's folder")?;
    }
    Ok(outcome)
}

fn finished(tally: Tally, surveys: &BTreeMap<String, Shares>) -> ProgramOutcome {
    let mut outcome = tally.outcome;
    outcome.functions_instrumented = tally.functions.values().map(|addresses| addresses.len() as u64).sum();
    outcome.insert_pause = Pauses::of(tally.insert_ns);
    outcome.remove_pause = Pauses::of(tally.remove_ns);
    tally.files.iter().filter_map(|file| surveys.get(file)).for_each(|shares| outcome.shares.add(shares));
    outcome
}

/// One program's turn.
struct Session<'a> {
    program: &'a Program,
    seed: u64,
    share: Duration,
    folder: &'a Path,
    state: &'a mut TortureState,
    watch: &'a Watch,
}

impl Session<'_> {
    fn torture(&mut self) -> Result<Tally> {
        let mut tally = Tally::default();
        tally.outcome.name = self.program.name.to_string();
        let Some((expected, undisturbed)) = self.undisturbed()? else { return Ok(tally) };
        tally.outcome.undisturbed_s = undisturbed.as_secs_f64();
        let limit = undisturbed * SLOWER_MAX + LONGER_MAX;
        let (mut used, mut seed) = (Duration::ZERO, self.seed);
        while tally.outcome.runs == 0 || used < self.share {
            let (begun, surveyed) = (Instant::now(), self.state.survey_time);
            self.run(&mut tally, &expected, seed, limit, self.share.saturating_sub(used))?;
            used += begun.elapsed().saturating_sub(self.state.survey_time - surveyed);
            seed = Random::new(seed).bits();
            if tally.outcome.failures.len() >= FAILURES_MAX {
                println!("{}: given up after {FAILURES_MAX} failures", self.program.name);
                break;
            }
        }
        Ok(tally)
    }

    /// The end of an undisturbed run, and how long it took. A test suite may fail now and then by itself: such a run is none to
    /// compare others with.
    fn undisturbed(&self) -> Result<Option<(End, Duration)>> {
        let mut why = String::new();
        for _ in 0..UNDISTURBED_TRIES {
            let started = Instant::now();
            let end = Run::start(self.program, &self.folder.join(self.program.name))?.wait(UNDISTURBED_MAX)?;
            match end {
                Some(end) if end.status == self.program.status() => return Ok(Some((end, started.elapsed()))),
                Some(end) => why = format!("its exit status is {} undisturbed", end.status),
                None => why = format!("it took longer than {UNDISTURBED_MAX:?} undisturbed"),
            }
        }
        println!("SKIPPED: torture[{}]: {why}", self.program.name);
        Ok(None)
    }

    /// One run under torture; after `active` it is left alone.
    fn run(&mut self, tally: &mut Tally, expected: &End, seed: u64, limit: Duration, active: Duration) -> Result<()> {
        let mut random = Random::new(seed);
        let folder = self.folder.join(self.program.name);
        let mut run = Run::start(self.program, &folder)?;
        self.state.seen.clear();
        let surveyed = self.state.survey_time;
        tally.log.clear();
        self.watch.root.store(run.root().0, Relaxed);
        let mut failure = None;
        let end = loop {
            self.watch.beat();
            if let Some(end) = run.ended()? {
                break Some(end);
            }
            let age = run.age().saturating_sub(self.state.survey_time - surveyed);
            if age > limit {
                break None;
            }
            let target = if age < active { pick(run.root(), &mut random) } else { None };
            match target.map(|pid| self.state.visit(pid, tally, &mut random, &|| self.watch.beat())) {
                Some(Ok(())) => {}
                Some(Err(found)) => {
                    failure = Some(*found);
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        self.watch.root.store(0, Relaxed);
        let failure = failure.or_else(|| verdict(tally, end.as_ref(), expected, run.folder(), limit));
        drop(run);
        tally.outcome.runs += 1;
        if let Some(failure) = failure {
            self.keep(tally, failure, seed, &folder)?;
        }
        Ok(())
    }

    /// Keeps a failed run's files where the next run does not overwrite them.
    fn keep(&self, tally: &mut Tally, failure: Failure, seed: u64, folder: &Path) -> Result<()> {
        let kept = self.folder.join(format!("{}-failed-{}", self.program.name, tally.outcome.failures.len()));
        std::fs::rename(folder, &kept).context("cannot keep a failed run's folder")?;
        println!(
            "FAILED: {} --seed {seed}: {:?}: {} (files: {})",
            self.program.name,
            failure.kind,
            failure.detail,
            kept.display()
        );
        failure.log.iter().for_each(|line| println!("    {line}"));
        tally.outcome.failures.push(Failure { seed, folder: kept.display().to_string(), ..failure });
        Ok(())
    }
}

/// The fault in how a run ended, if there is one.
fn verdict(tally: &Tally, end: Option<&End>, expected: &End, folder: &Path, limit: Duration) -> Option<Failure> {
    let stderr = || tail(&std::fs::read(folder.join("stderr")).unwrap_or_default());
    let Some(end) = end else {
        return Some(tally.failure(FailureKind::Hang, format!("it ran for more than {limit:?}; stderr: {}", stderr())));
    };
    if end.status != expected.status {
        let detail = format!(
            "exit status {} instead of {}; stderr: {}\n{}",
            end.status,
            expected.status,
            stderr(),
            backtrace(folder)
        );
        return Some(tally.failure(FailureKind::Crash, detail));
    }
    if end.stdout != expected.stdout {
        let place = end.stdout.iter().zip(&expected.stdout).position(|(a, b)| a != b);
        let place = place.unwrap_or(end.stdout.len().min(expected.stdout.len()));
        let shown =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[place..bytes.len().min(place + SHOWN_BYTES)]).into_owned();
        let (found, wanted) = (shown(&end.stdout), shown(&expected.stdout));
        let detail = format!(
            "from byte {place} on `{found}` instead of `{wanted}`; stderr: {}\n{}",
            stderr(),
            backtrace(folder)
        );
        return Some(tally.failure(FailureKind::WrongOutput, detail));
    }
    let crashed = backtrace(folder);
    (!crashed.is_empty()).then(|| tally.failure(FailureKind::Crash, format!("a process left a core file: {crashed}")))
}

fn tail(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(SHOWN_BYTES)..]).into_owned()
}

/// A process below `root`, mostly one that runs right now.
fn pick(root: Pid, random: &mut Random) -> Option<Pid> {
    let all = tree::descendants(root);
    let is_running = |pid: &&Pid| tree::life(**pid).is_some_and(|life| life.state == 'R');
    let running: Vec<Pid> = all.iter().filter(is_running).copied().collect();
    let from = if !running.is_empty() && random.in_thousand(RUNNING_IN_THOUSAND) { &running } else { &all };
    from.get(random.below(from.len() as u64) as usize).copied()
}

/// Ends the program if we are stuck in it.
#[derive(Debug)]
struct Watch {
    root: Arc<AtomicI32>,
    beat: Arc<AtomicU64>,
}

impl Watch {
    fn begin() -> Watch {
        let watch = Watch { root: Arc::default(), beat: Arc::default() };
        let (root, beat) = (watch.root.clone(), watch.beat.clone());
        // Ends with the process; it holds nothing.
        std::thread::spawn(move || {
            let mut last = (0, Instant::now());
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let now = beat.load(Relaxed);
                if now != last.0 || root.load(Relaxed) == 0 {
                    last = (now, Instant::now());
                } else if last.1.elapsed() > STUCK_MAX {
                    println!("STUCK for {STUCK_MAX:?}: ending the program");
                    tree::end(Pid(root.load(Relaxed)));
                    last.1 = Instant::now();
                }
            }
        });
        watch
    }

    fn beat(&self) {
        self.beat.fetch_add(1, Relaxed);
    }
}
