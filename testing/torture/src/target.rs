//! Cycles on one process of a program, and proof after them that its code is that of its files.
//!
//! Any process may end or execute another program at any moment; what fails then is no failure. A failure or a
//! difference in a process that lives on is one.
//!
//! Next: `campaign` picks the processes.

use crate::cycle::{Choice, Cycle, Functions, Stop, cycle, untried};
use crate::inserter::READY;
use crate::outcome::{Failure, FailureKind, ProgramOutcome, Shares, without_numbers};
use crate::random::Random;
use crate::survey::survey;
use crate::text::Files;
use crate::tree::{self, Life};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_session::leftover::{self, Leftover};
use trimtab_session::{ImageCache, Modules, Prepared};
use trimtab_types::{Pid, ProcAddr};

/// Of 1000 cycles, those in which the inserting process is killed.
const KILLS_IN_THOUSAND: u64 = 60;
/// Longest time between an inserter's readiness and its end.
const KILL_AFTER_US_MAX: u64 = 15_000;
/// Of 1000 removals, those after which all text is compared with its files.
const CHECKS_IN_THOUSAND: u64 = 120;
/// Cycles in one visit of a process.
const CYCLES_MAX: u64 = 12;
/// Times a prepared insertion is carried out before another is prepared.
const REPEATS_MAX: u64 = 3;
/// Undoing is tried this often while a thread stands in the memory to be unmapped.
const UNDO_TRIES: usize = 5;
/// Lines of the log that a failure keeps.
const LOG_MAX: usize = 25;

/// The results of one program so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Counts; shares and pauses are filled in at the end.
    pub outcome: ProgramOutcome,
    /// Functions that had a probe.
    pub functions: Functions,
    /// Those and functions that were refused.
    pub tried: Functions,
    /// Pauses of insertions, nanoseconds.
    pub insert_ns: Vec<u64>,
    /// Pauses of removals, nanoseconds.
    pub remove_ns: Vec<u64>,
    /// Files it maps.
    pub files: HashSet<String>,
    /// Lines about the last cycles.
    pub log: VecDeque<String>,
}

impl Tally {
    /// Keeps one line about a cycle.
    pub fn note(&mut self, line: String) {
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back(line);
    }

    /// A failure with the last cycles before it.
    pub fn failure(&self, kind: FailureKind, detail: String) -> Failure {
        Failure { kind, seed: 0, detail, folder: String::new(), log: self.log.iter().cloned().collect() }
    }
}

/// The state that all programs share.
#[derive(Debug)]
pub(crate) struct TortureState {
    /// Symbols of files.
    pub cache: ImageCache,
    /// Bytes of files.
    pub text: Files,
    /// Surveyed files.
    pub surveys: BTreeMap<String, Shares>,
    /// Time surveys took: no program is blamed for it.
    pub survey_time: Duration,
    /// True if files are surveyed at all.
    pub surveying: bool,
    /// This program, which is also the inserter.
    pub executable: PathBuf,
    /// Where inserters keep symbols.
    pub cache_home: PathBuf,
    /// Processes seen in this run.
    pub seen: HashSet<(i32, u64)>,
}

/// One process in one life: the same pid, start and program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Subject {
    pid: Pid,
    start: u64,
    program: PathBuf,
}

impl Subject {
    fn of(pid: Pid) -> Option<Subject> {
        let Life { start, .. } = tree::life(pid)?;
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        Some(Subject { pid, start, program })
    }

    fn lives(&self) -> bool {
        Subject::of(self.pid).as_ref() == Some(self)
    }
}

type Visit = Result<(), Box<Failure>>;

impl TortureState {
    /// Some cycles on `pid`.
    ///
    /// # Errors
    /// Events that must never happen and did.
    pub fn visit(&mut self, pid: Pid, tally: &mut Tally, random: &mut Random, beat: &dyn Fn()) -> Visit {
        let Some(subject) = Subject::of(pid) else { return Ok(()) };
        self.restore_inherited(&subject, tally)?;
        if self.seen.insert((pid.0, subject.start)) {
            tally.outcome.processes += 1;
            self.check_text(&subject, tally, "before the first cycle")?;
        }
        let Ok(modules) = Modules::read(pid, &self.cache, &|_| true) else { return Ok(()) };
        if modules.modules.is_empty() || !subject.lives() {
            return Ok(());
        }
        tally.files.extend(modules.modules.iter().map(|module| module.path.clone()));
        self.survey(&modules, beat);
        for _ in 0..=random.below(CYCLES_MAX) {
            let goes_on = if random.in_thousand(KILLS_IN_THOUSAND) {
                self.killed_cycle(&subject, tally, random)?
            } else {
                self.plain_cycles(&subject, &modules, tally, random)?
            };
            if !goes_on || !subject.lives() {
                return Ok(());
            }
        }
        self.check_text(&subject, tally, "after the last cycle of a visit")
    }

    /// A process forked while its parent was patched carries the patches, dormant, until they are undone.
    fn restore_inherited(&mut self, subject: &Subject, tally: &mut Tally) -> Visit {
        let found = match leftover::find(subject.pid) {
            Ok(Leftover::None) => return Ok(()),
            Ok(found) => found,
            // It is about to execute another program.
            Err(trimtab_session::Error::SharesMemory { .. }) => return Ok(()),
            Err(error) => return self.if_alive(subject, tally, &format!("finding what was inherited: {error}")),
        };
        tally.note(format!("{} undoes what it inherited", describe(subject)));
        match leftover::undo_inherited(subject.pid, &found) {
            Ok(_) => tally.outcome.inherited_undone += 1,
            Err(error) => return self.if_alive(subject, tally, &format!("undoing what was inherited: {error}")),
        }
        self.check_text(subject, tally, "after undoing what was inherited")
    }

    fn survey(&mut self, modules: &Modules, beat: &dyn Fn()) {
        let started = Instant::now();
        for module in modules.modules.iter().filter(|_| self.surveying) {
            if !self.surveys.contains_key(&module.path)
                && let Ok(shares) = survey(modules, module, beat)
            {
                self.surveys.insert(module.path.clone(), shares);
            }
        }
        self.survey_time += started.elapsed();
    }

    /// One preparation, carried out a few times; whether to go on with this process.
    fn plain_cycles(
        &mut self,
        subject: &Subject,
        modules: &Modules,
        tally: &mut Tally,
        random: &mut Random,
    ) -> Result<bool, Box<Failure>> {
        let untried = untried(modules, &tally.tried);
        let choice = Choice::draw(random, untried.len() as u64);
        let requests = choice.requests(modules, &untried);
        let started = Instant::now();
        let prepared = match Prepared::new(modules, &requests) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(self.refused(subject, tally, &error.to_string())),
        };
        let place = format!("{} seed {} functions {}", describe(subject), choice.seed, prepared.probes().len());
        let prepared_ms = started.elapsed().as_millis();
        for _ in 0..=random.below(REPEATS_MAX) {
            tally.note(format!("{place} prepared in {prepared_ms} ms, waits {} us", choice.wait.as_micros()));
            match cycle(modules, &prepared, requests.len() as u64, choice.wait) {
                Ok(done) => {
                    count(tally, modules, &prepared, &done);
                    note_all(&mut tally.tried, modules, requests.iter().map(|request| request.address));
                    self.judge(subject, tally, &done, random)?;
                }
                Err(Stop::Insert(error)) => {
                    let goes_on = self.refused(subject, tally, &error.to_string());
                    self.check_text(subject, tally, "after a refused insertion")?;
                    return Ok(goes_on);
                }
                Err(Stop::Remove(error)) => {
                    self.if_alive(subject, tally, &format!("removing: {error}"))?;
                    tally.outcome.ended_meanwhile += 1;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn judge(&mut self, subject: &Subject, tally: &mut Tally, done: &Cycle, random: &mut Random) -> Visit {
        let left = done.removal.left_mapped_bytes > 0;
        if left {
            tally.outcome.left_mapped += 1;
        }
        if !done.removal.foreign.is_empty() {
            self.if_alive(subject, tally, &format!("bytes that are nobody's at {:x?}", done.removal.foreign))?;
        }
        if left || random.in_thousand(CHECKS_IN_THOUSAND) {
            self.check_text(subject, tally, "after a removal")?;
        }
        Ok(())
    }

    /// An insertion that said no; whether to go on with this process.
    fn refused(&self, subject: &Subject, tally: &mut Tally, reason: &str) -> bool {
        if !subject.lives() {
            tally.outcome.ended_meanwhile += 1;
            return false;
        }
        tally.note(format!("{} refused: {reason}", describe(subject)));
        *tally.outcome.errors.entry(without_numbers(reason)).or_default() += 1;
        true
    }

    /// The insertion is made by a process that is killed; whether to go on with this one.
    fn killed_cycle(
        &mut self,
        subject: &Subject,
        tally: &mut Tally,
        random: &mut Random,
    ) -> Result<bool, Box<Failure>> {
        let count = random.magnitude(10, 500);
        let seed = random.bits();
        let wait = Duration::from_micros(random.below(KILL_AFTER_US_MAX));
        let Some((mut child, mut output)) = self.start_inserter(subject.pid, seed, count) else { return Ok(true) };
        let mut line = String::new();
        let is_ready = output.read_line(&mut line).is_ok() && line.trim() == READY;
        if is_ready {
            std::thread::sleep(wait);
        }
        let _ = child.kill();
        let _ = child.wait();
        if !is_ready {
            return Ok(subject.lives());
        }
        tally.outcome.kills += 1;
        tally.note(format!(
            "{} inserter seed {seed} count {count} killed after {} us",
            describe(subject),
            wait.as_micros()
        ));
        self.undo(subject, tally)?;
        Ok(true)
    }

    fn start_inserter(&self, pid: Pid, seed: u64, count: u64) -> Option<(Child, BufReader<ChildStdout>)> {
        let mut command = Command::new(&self.executable);
        command.args(["inserter", &pid.to_string(), &seed.to_string(), &count.to_string()]);
        command
            .env("XDG_CACHE_HOME", &self.cache_home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let output = BufReader::new(child.stdout.take()?);
        Some((child, output))
    }

    fn undo(&mut self, subject: &Subject, tally: &mut Tally) -> Visit {
        for attempt in 0..UNDO_TRIES {
            let found = match leftover::find(subject.pid) {
                Ok(Leftover::None) => {
                    return self.check_text(subject, tally, "after undoing what a killed inserter left");
                }
                Ok(found) => found,
                Err(error) => return self.if_alive(subject, tally, &format!("finding what was left: {error}")),
            };
            if attempt == 0 {
                tally.outcome.kills_undone += 1;
            }
            // Memory that an earlier cycle of ours had to leave mapped goes too.
            if let Err(error) = leftover::undo_inherited(subject.pid, &found) {
                return self.if_alive(subject, tally, &format!("undoing: {error}"));
            }
        }
        tally.outcome.left_mapped += 1;
        self.check_text(subject, tally, "after undoing what a killed inserter left")
    }

    fn if_alive(&self, subject: &Subject, tally: &Tally, detail: &str) -> Visit {
        // An error may come from its end; a zombie shows itself a moment later.
        std::thread::sleep(Duration::from_millis(20));
        if !subject.lives() {
            return Ok(());
        }
        Err(Box::new(tally.failure(FailureKind::NotRestored, format!("{}: {detail}", describe(subject)))))
    }

    fn check_text(&mut self, subject: &Subject, tally: &mut Tally, when: &str) -> Visit {
        let Some(differences) = self.text.differences(subject.pid) else { return Ok(()) };
        tally.outcome.text_checks += 1;
        if differences.is_empty() || !subject.lives() {
            return Ok(());
        }
        let detail = format!("{}: {when}: {differences:x?}", describe(subject));
        Err(Box::new(tally.failure(FailureKind::Bytes, detail)))
    }
}

fn describe(subject: &Subject) -> String {
    let name = subject.program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{name} {}", subject.pid)
}

fn count(tally: &mut Tally, modules: &Modules, prepared: &Prepared, done: &Cycle) {
    tally.outcome.cycles += 1;
    tally.outcome.hits += done.hits;
    tally.outcome.probes_inserted += prepared.probes().len() as u64;
    tally.insert_ns.push(done.insert_pause_ns);
    tally.remove_ns.push(done.removal.pause_ns_max);
    note_all(&mut tally.functions, modules, prepared.addresses());
}

fn note_all(functions: &mut Functions, modules: &Modules, addresses: impl Iterator<Item = ProcAddr>) {
    for address in addresses {
        if let Some(module) = modules.at(address) {
            let known = functions.entry(module.path.clone()).or_default();
            known.insert(module.bias.to_file(address).0);
        }
    }
}
