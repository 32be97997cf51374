//! A script that runs: in all its processes of one machine at once, read from outside, taken out when it is over.
//!
//! Reading stops nobody: variables and messages lie in memory that both sides map. Bodies that the clock calls run here,
//! on what the process's threads have counted so far.
//!
//! Next: `source` for how a process is made ready; `member` for one that has it.

use crate::error::Error;
use crate::member::Member;
use crate::message::Message;
use crate::part::Part;
use crate::request::{Poll, Refusal, Summary};
use crate::source::{ScriptOptions, Source};
use crate::target::{LOOK_EVERY, Loss, Target};
use std::collections::BTreeMap;
use std::time::Duration;
use trimtab_measure::{program_name, wait_for_start};
use trimtab_mpi::is_mpi_module;
use trimtab_os::{Moment, monotonic_ns, wait_for_end};
use trimtab_session::{ImageCache, Modules, try_again};
use trimtab_snippet::ir::When;
use trimtab_snippet::values::{Named, merge_all};

/// A script in its processes. Dropping it takes the probes out.
pub struct Running {
    members: Vec<Member>,
    started_ns: u64,
    /// When each clock body is due, by number of the body.
    due_ns: Vec<(usize, u64)>,
    warnings: Vec<String>,
    cache: ImageCache,
}

impl Running {
    /// Compiles for every process first, then inserts into all. If one can't be done, those done before are restored.
    ///
    /// # Errors
    /// [`Error::Script`] if the text is wrong, else what stood in the way in the first process where something did.
    pub fn start(targets: &[Target], options: &ScriptOptions, cache: &ImageCache) -> Result<Self, Error> {
        if options.seccomp_ok {
            targets.iter().for_each(|target| trimtab_os::trust_filters(target.pid));
        }
        let begun = Moment::now();
        await_start(targets, cache);
        let (targets, sources, left_out) = compiled(targets, options, cache)?;
        let ticks_per_second = begun.ticks_per_second_since();
        let mut warnings = left_out;
        warnings.extend(not_looked_at(&targets, &sources));
        let mut members = Vec::new();
        for (target, source) in targets.iter().zip(sources) {
            members.push(inserted(*target, source, options, cache, ticks_per_second)?);
        }
        let started_ns = monotonic_ns();
        let due_ns = clock_bodies(&members).map(|(number, period_ns)| (number, started_ns + period_ns)).collect();
        Ok(Running { members, started_ns, due_ns, warnings, cache: cache.clone() })
    }

    /// How long the script wants to record; `None`: until told otherwise.
    pub fn wanted(&self) -> Option<Duration> {
        self.members.first()?.source.compiled.duration_us.map(Duration::from_micros)
    }

    /// Time since the probes are in.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(monotonic_ns() - self.started_ns)
    }

    /// Waits until it is worth looking again: a process has ended, a signal has come, a body of the clock is due, something
    /// may have come from the bodies, or `limit` is over.
    pub fn wait(&self, limit: Option<Duration>) {
        let wait = [limit, self.next_look()].into_iter().flatten().min().unwrap_or(LOOK_EVERY);
        wait_for_end(self.living().filter_map(|member| member.end.as_ref()), wait);
    }

    /// When it is worth looking again if nothing wakes us: a body of the clock is due, or something may have come. `None`:
    /// no process runs any more.
    pub fn next_look(&self) -> Option<Duration> {
        let now = monotonic_ns();
        let due = self.due_ns.iter().map(|(_, due)| Duration::from_nanos(due.saturating_sub(now))).min();
        let look = self.living().map(Member::look_every).min();
        [due, look].into_iter().flatten().min()
    }

    fn living(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.alive)
    }

    /// Functions of the script in the first process, and those that can't be probed.
    pub fn refusals(&self) -> (usize, Vec<Refusal>) {
        let Some(first) = self.members.first() else { return (0, Vec::new()) };
        let refused = first.source.refused.iter();
        let refused = refused.map(|one| Refusal { function: one.name.clone(), reason: one.reason.to_string() });
        (first.source.functions, refused.collect())
    }

    /// Places in libraries of the first process that are still to be loaded, as the script names them.
    pub fn awaited(&self) -> Vec<String> {
        self.members.first().map(Member::awaited).unwrap_or_default()
    }

    /// Reads what has come, refreshes tables, runs what the clock calls.
    pub fn poll(&mut self) -> Poll {
        let due = self.take_due();
        let mut poll = Poll::default();
        for member in self.members.iter_mut().filter(|member| member.alive) {
            member.look_alive();
            member.look_held();
            if let Some(warnings) = member.yield_to_handler() {
                self.warnings.extend(warnings);
                poll.has_new_handler = true;
            }
            member.refresh();
            self.warnings.extend(member.look_for_libraries(&self.cache, self.started_ns));
            poll.messages.extend(member.messages());
            for number in &due {
                let (messages, problem) = member.run_clock(*number);
                poll.messages.extend(messages);
                self.warnings.extend(problem.filter(|problem| !self.warnings.contains(problem)));
            }
            poll.stopped |= member.parts().any(Part::is_stopped);
            poll.alive += usize::from(member.alive);
        }
        poll
    }

    fn take_due(&mut self) -> Vec<usize> {
        let now = monotonic_ns();
        let periods: Vec<(usize, u64)> = clock_bodies(&self.members).collect();
        let mut due = Vec::new();
        for (number, at) in self.due_ns.iter_mut().filter(|(_, at)| *at <= now) {
            let period = periods.iter().find(|(known, _)| known == number).map_or(u64::MAX, |(_, period)| *period);
            *at = (*at + period).max(now);
            due.push(*number);
        }
        due
    }

    /// The variables as they stand, over all processes.
    pub fn values(&self) -> Vec<Named> {
        self.members.iter().map(Member::values).reduce(merge_all).unwrap_or_default()
    }

    /// Takes the probes out everywhere, reads the last messages, and says what it cost.
    pub fn finish(mut self) -> (Vec<Message>, Vec<Named>, Summary) {
        for member in &mut self.members {
            let target = member.target;
            member.look_held();
            self.warnings.extend(member.told_held());
            member.alive &= member.part.inserted.is_alive() || member.is_out();
            self.warnings.append(&mut member.problems);
            self.warnings.extend(member.parts_mut().filter_map(|part| part.remove(&target)));
            let never = member.awaited().into_iter();
            self.warnings
                .extend(never.map(|name| format!("process {}: the library of {name} was never loaded", target.pid)));
        }
        let messages = self.members.iter_mut().flat_map(Member::messages).collect();
        for member in &self.members {
            let new = member.unmeasured().warnings.into_iter().filter(|warning| !self.warnings.contains(warning));
            self.warnings.extend(new.collect::<Vec<_>>());
        }
        (messages, self.values(), self.summary())
    }

    fn summary(&self) -> Summary {
        let mut loss = Loss::default();
        for member in &self.members {
            member.add_loss(&mut loss);
        }
        let parts = || self.members.iter().flat_map(Member::parts);
        let longest = |pause: fn(&Part) -> u64| parts().map(pause).filter(|ns| *ns > 0).max().map(|ns| ns as f64 / 1e3);
        Summary {
            points: parts().map(|part| part.inserted.point_count).sum(),
            pause_insert_us_max: longest(|part| part.inserted.pause_ns).unwrap_or(0.0),
            pause_remove_us_max: longest(|part| part.pause_remove_ns),
            loss,
            late: self.members.iter().flat_map(|member| member.late.iter().map(|(late, _)| late.clone())).collect(),
            departed: self.members.iter().filter_map(|member| member.part.inserted.departure(!member.alive)).collect(),
            warnings: self.warnings.clone(),
            notes: self.members.iter().filter_map(note_of).collect(),
        }
    }
}

/// Samplers and the cancelling of threads look at stacks in the middle of what was put in.
fn note_of(member: &Member) -> Option<String> {
    let why = member.source.interrupted.filter(|_| !member.parts().all(|part| part.inserted.are_frames_known))?;
    Some(format!("process {}: {why}; {}", member.target.pid, trimtab_measure::FRAMES_MISSING))
}

/// Processes, the script for each of them, and what is said of the others.
type Sources = (Vec<Target>, Vec<Source>, Vec<String>);

/// The script for each process, and what is said of those that have none of its places: ranks may run different programs.
///
/// # Errors
/// The obstacle in the first process, if it was there in all, or if it is no matter of places.
fn compiled(targets: &[Target], options: &ScriptOptions, cache: &ImageCache) -> Result<Sources, Error> {
    let (mut able, mut sources, mut unable) = (Vec::new(), Vec::new(), Vec::new());
    for target in targets {
        match Source::new(target.pid, options, cache) {
            Ok(source) => {
                able.push(*target);
                sources.push(source);
            }
            Err(error) if error.is_of_places() => unable.push((*target, error)),
            Err(error) => return Err(error),
        }
    }
    if sources.is_empty() && !unable.is_empty() {
        return Err(unable.remove(0).1);
    }
    Ok((able, sources, not_probed(&unable)))
}

/// Says which ranks are not probed and why, those with the same reason together.
fn not_probed(unable: &[(Target, Error)]) -> Vec<String> {
    let mut ranks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (target, error) in unable {
        let name = target.rank.map_or_else(|| format!("process {}", target.pid), |rank| format!("rank {rank}"));
        ranks.entry(error.reason()).or_default().push(name);
    }
    ranks.into_iter().map(|(reason, ranks)| format!("not probed: {}: {reason}", ranks.join(", "))).collect()
}

/// Says of each program and library that could not be read why, and in which process.
fn not_looked_at(targets: &[Target], sources: &[Source]) -> Vec<String> {
    let said = |(target, source): (&Target, &Source)| {
        let pid = target.pid;
        let unread = source.unread.clone().into_iter();
        unread.map(move |(path, reason)| format!("process {pid}: {path} was not looked at: {reason}"))
    };
    targets.iter().zip(sources).flat_map(said).collect()
}

/// Ranks that have others are not held up in `MPI_Init`; before it they are, for what a script asks may be there.
fn await_start(targets: &[Target], cache: &ImageCache) {
    let with_others = targets.iter().filter(|target| target.ranks.is_some_and(|ranks| ranks > 1));
    // A file that can't be read here is said where it is needed.
    let library = |target: &Target| {
        let exe = program_name(target.pid);
        Modules::read(target.pid, cache, &|path| is_mpi_module(path) || path == exe).ok()
    };
    let modules: Vec<Modules> = with_others.filter_map(library).collect();
    wait_for_start(&modules, Duration::ZERO, &|| false);
}

/// A process with the script in it. If it unloaded code that was to be patched, it is read anew and tried again.
fn inserted(
    target: Target,
    source: Source,
    options: &ScriptOptions,
    cache: &ImageCache,
    ticks_per_second: f64,
) -> Result<Member, Error> {
    let mut made = Some(source);
    try_again(|_| {
        let source = made.take().map_or_else(|| Source::new(target.pid, options, cache), Ok)?;
        Member::insert(target, source, ticks_per_second, cache)
    })
}

/// Bodies that the clock calls, with their periods in nanoseconds.
fn clock_bodies(members: &[Member]) -> impl Iterator<Item = (usize, u64)> {
    let bodies = members.first().map_or(&[][..], |member| member.source.compiled.unit.bodies.as_slice());
    bodies.iter().enumerate().filter_map(|(number, body)| match body.when {
        When::Every { period_us } => Some((number, period_us.max(1) * 1000)),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
