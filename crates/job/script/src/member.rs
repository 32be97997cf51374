//! One process with a script in it: what is in, what it has sent and counted, what the clock runs for it.
//!
//! Next: `part` for one insertion; `outside` for what trimtab runs itself; `late` for libraries that come later; `run`, which has all processes.

use crate::error::Error;
use crate::late::{Look, Waiting};
use crate::message::Message;
use crate::part::{AreaWords, Part};
use crate::source::{SETUP, Source};
use crate::target::{LOOK_EVERY, LOOK_EVERY_MAX, Late, Loss, Target};
use crate::unmeasured::Unmeasured;
use std::cell::RefCell;
use std::time::Duration;
use trimtab_os::{MappingTable, ProcessEnd, monotonic_ns, stat_of};
use trimtab_session::{ImageCache, Lost, Prepared, RangeTables, ScriptStart, ScriptView};
use trimtab_snippet::ir::{Unit, When, thread_word};
use trimtab_snippet::values::{Named, RankAreas, collect};
use trimtab_stub::view::View;
use trimtab_types::procfs::State;

/// Between two looks where nothing comes from the bodies before the end, or while none of the processes is known to be
/// another program by now: only `execve` goes unnoticed otherwise.
const ALIVE_EVERY: Duration = Duration::from_millis(500);
/// The longer nothing comes, the less often one looks: this part of that time later.
const QUIET_PART: u32 = 8;
/// Between two looks at what a process has mapped while a library is waited for; it is in after the second that sees it.
const LIBRARIES_EVERY: Duration = Duration::from_millis(20);

/// A process with a script in it.
pub(crate) struct Member {
    pub target: Target,
    pub source: Source,
    pub part: Part,
    /// Insertions in libraries that came later, which know nothing of this one.
    pub late: Vec<(Late, Part)>,
    /// The thread area of bodies that trimtab runs itself, as if a thread ran them.
    pub outside_area: Vec<u64>,
    /// Bodies that run once and have not yet.
    pub once: Vec<usize>,
    /// The problems of those.
    pub problems: Vec<String>,
    /// For how long job control was seen to hold the process, and since when it is held.
    held: (Duration, Option<u64>),
    /// Bodies that do not run in libraries that came later: at none of a point's places, and at some.
    lost_late: (Vec<Lost>, Vec<Lost>),
    /// Files that were read, for the calls that those make.
    pub cache: ImageCache,
    pub alive: bool,
    /// When that was last looked at.
    alive_ns: u64,
    ticks_per_second: f64,
    /// When libraries were last looked for.
    libraries_ns: u64,
    /// A handle that wakes us when the process ends; `None` where the kernel does not tell.
    pub end: Option<ProcessEnd>,
    tables: RangeTables,
    /// Refused loads when the tables were filled last.
    refused_count: u64,
    /// When something last came from the bodies: a message, or that the tables were emptied or did not have an address.
    heard_ns: u64,
}

impl Member {
    pub fn insert(target: Target, source: Source, ticks_per_second: f64, cache: &ImageCache) -> Result<Self, Error> {
        let pid = target.pid;
        let unit = &source.compiled.unit;
        let maps = MappingTable::of(pid).map_err(|error| Error::of(pid)(error.into()))?;
        let (part, tables) = inserted(&target, &source.prepared, unit, ticks_per_second, (&maps, source.guarded))
            .map_err(Error::of(pid))?;
        let outside_area = vec![0; unit.thread_bytes as usize / 8];
        let once = bodies_of_once(unit);
        let mut member = Member {
            target,
            source,
            part,
            late: Vec::new(),
            outside_area,
            once,
            problems: Vec::new(),
            held: (Duration::ZERO, None),
            lost_late: Default::default(),
            cache: cache.clone(),
            ticks_per_second,
            alive: true,
            alive_ns: monotonic_ns(),
            libraries_ns: 0,
            end: ProcessEnd::of(pid).ok(),
            tables,
            // Anything but what it is: what was mapped is looked at again now that it is known what goes.
            refused_count: u64::MAX,
            heard_ns: monotonic_ns(),
        };
        member.refresh();
        Ok(member)
    }

    /// All insertions, those in later libraries first: they are taken out first.
    pub fn parts_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.late.iter_mut().map(|(_, part)| part).chain([&mut self.part])
    }

    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.part).chain(self.late.iter().map(|(_, part)| part))
    }

    pub fn awaited(&self) -> Vec<String> {
        self.source.waiting.iter().flat_map(Waiting::names).collect()
    }

    /// Looks now and then whether a library that is waited for is there, and puts the probes in that belong there.
    /// Returns what could not be done.
    pub fn look_for_libraries(&mut self, cache: &ImageCache, started_ns: u64) -> Vec<String> {
        let now = monotonic_ns();
        if !self.alive || self.source.waiting.is_empty() || now < self.libraries_ns + LIBRARIES_EVERY.as_nanos() as u64
        {
            return Vec::new();
        }
        self.libraries_ns = now;
        // Another program's libraries are none of ours.
        let Some(maps) = MappingTable::of(self.target.pid).ok().filter(|_| self.part.inserted.is_alive()) else {
            return Vec::new();
        };
        let mut problems = Vec::new();
        for mut waiting in std::mem::take(&mut self.source.waiting) {
            let are_setters_held = self.parts().any(|part| part.inserted.is_watched());
            let process = (self.target.pid, &maps);
            let look = match waiting.look(process, are_setters_held, &self.source.compiled.unit, cache) {
                Look::Ready(prepared) => self.insert_late(&mut waiting, &prepared, started_ns, &mut problems),
                other => other,
            };
            match look {
                Look::NotYet => self.source.waiting.push(waiting),
                Look::Refused(reason) => {
                    let pid = self.target.pid;
                    self.lost_late.0.extend(waiting.lost(&reason));
                    problems
                        .push(format!("process {pid}: {} was loaded but can't be probed: {reason}", waiting.library));
                }
                Look::Ready(_) | Look::Done => {}
            }
        }
        problems
    }
    fn insert_late(
        &mut self,
        waiting: &mut Waiting,
        prepared: &Prepared,
        started_ns: u64,
        problems: &mut Vec<String>,
    ) -> Look {
        let maps = MappingTable::of(self.target.pid).unwrap_or_default();
        // Mappings that stay need not be guarded.
        let readable = (&waiting.lasting(&maps, &self.source.program), true);
        let part = match inserted(&self.target, prepared, self.unit(), self.ticks_per_second, readable) {
            Ok((part, _)) => part,
            Err(error) => return waiting.failed(&error.to_string()),
        };
        if !self.part.inserted.is_alive() {
            // It has executed another program meanwhile, which the bodies were not made for.
            return Look::NotYet;
        }
        let pid = self.target.pid;
        let refused = prepared.refused.iter();
        problems.extend(refused.map(|one| format!("process {pid}: not probed: {}: {}", one.name, one.reason)));
        self.lost_late.1.extend(prepared.lost.iter().cloned());
        let after_s = (monotonic_ns() - started_ns) as f64 / 1e9;
        let late = Late { pid: pid.0, library: waiting.library.clone(), after_s, points: part.inserted.point_count };
        self.late.push((late, part));
        Look::Done
    }

    pub fn rank(&self) -> i64 {
        self.target.rank_number()
    }

    pub fn unit(&self) -> &Unit {
        &self.source.compiled.unit
    }

    /// How often to look without being woken.
    pub fn look_every(&self) -> Duration {
        if self.end.is_none() || !self.source.waiting.is_empty() || !self.once.is_empty() {
            return LOOK_EVERY;
        }
        let usual = self.look_every_usually();
        if self.parts().any(|part| part.inserted.is_watched()) { usual.min(LOOK_EVERY_MAX) } else { usual }
    }

    fn look_every_usually(&self) -> Duration {
        match self.source.inside_at {
            // A library that goes away unseen must not stay in the tables.
            Some(_) if !self.is_guarded() => LOOK_EVERY,
            None if !self.source.speaks => ALIVE_EVERY,
            _ => look_after(Duration::from_nanos(monotonic_ns().saturating_sub(self.heard_ns))),
        }
    }

    /// True if every call that takes memory away is seen. A thread without an area of its own can't say that it does.
    fn is_guarded(&self) -> bool {
        self.source.guarded && self.part.inserted.script().is_some_and(|script| script.threads_dropped() == 0)
    }

    /// Notes whether job control holds the process: then nothing in it runs.
    pub fn look_held(&mut self) {
        let now = monotonic_ns();
        let is_held = stat_of(self.target.pid, self.target.pid.0).is_some_and(|stat| stat.state == State::Stopped);
        let since = self.held.1.take();
        self.held.0 += Duration::from_nanos(since.filter(|_| is_held).map_or(0, |since| now - since));
        self.held.1 = is_held.then_some(now);
    }

    /// The words to say if it was held, or is.
    pub fn told_held(&self) -> Option<String> {
        let (held, pid) = (self.held.0, self.target.pid);
        match self.held.1 {
            Some(_) => Some(format!(
                "process {pid} is stopped by job control (SIGSTOP), for {:.1} s of this script by now: nothing in it runs until \
                 `kill -CONT {pid}`",
                held.as_secs_f64()
            )),
            None if held > Duration::ZERO => Some(format!(
                "process {pid} was stopped by job control (SIGSTOP) for at least {:.1} s of this script: nothing in it ran then",
                held.as_secs_f64()
            )),
            None => None,
        }
    }

    /// Looks if the process still runs the program, where something says so and else now and then.
    pub fn look_alive(&mut self) {
        let now = monotonic_ns();
        let has_ended = self.end.as_ref().is_none_or(ProcessEnd::is_over);
        if has_ended || now >= self.alive_ns + ALIVE_EVERY.as_nanos() as u64 {
            (self.alive, self.alive_ns) = (self.part.inserted.is_alive(), now);
        }
    }

    /// True if the probes were taken out before the end.
    pub fn is_out(&self) -> bool {
        self.part.is_removed()
    }

    /// Takes everything out at once if the program has set a fault handler of its own since: code that may fault is not where
    /// such a handler looks for it. Returns what to tell of that.
    pub fn yield_to_handler(&mut self) -> Option<Vec<String>> {
        let handler = self.parts().find_map(|part| part.inserted.new_fault_handler())?;
        let target = self.target;
        let mut told = vec![format!(
            "process {}: the program has set a fault handler of its own ({handler}) while probes were in; they were taken out at \
             once; run the script again: then nothing that may fault is moved",
            target.pid
        )];
        told.extend(self.parts_mut().filter_map(|part| part.remove(&target)));
        self.source.waiting.clear();
        Some(told)
    }

    /// Fills the tables of readable memory anew: if a call that took memory away has emptied them, if a body was refused
    /// something, which may have been mapped since, and always where such calls can't all be seen.
    pub fn refresh(&mut self) {
        let (Some(script), Some(inside_at)) = (self.part.inserted.script(), self.source.inside_at) else { return };
        let refused_count = script.refused_count();
        let guarded = self.is_guarded();
        if guarded && !script.is_emptied() && refused_count == self.refused_count {
            return;
        }
        self.heard_ns = monotonic_ns();
        if !script.begin_ranges(inside_at) {
            return;
        }
        self.refused_count = refused_count;
        if let Ok(maps) = MappingTable::of(self.target.pid) {
            script.set_ranges(&mut self.tables, &maps, guarded);
            script.end_ranges();
        }
    }

    pub fn messages(&mut self) -> Vec<Message> {
        let mut messages = self.run_once();
        let (target, unit) = (self.target, self.source.compiled.unit.clone());
        messages.extend(self.parts_mut().flat_map(|part| part.messages(&target, &unit)));
        if !messages.is_empty() {
            self.heard_ns = monotonic_ns();
        }
        messages
    }

    /// The process area, and those of all threads with the clock's last; then those of later libraries that were used.
    pub fn areas(&self) -> Vec<AreaWords> {
        let unit = self.unit();
        let (process, mut threads) = self.part.areas(unit);
        if unit.bodies.iter().any(|body| matches!(body.when, When::Every { .. } | When::Once)) {
            threads.push(self.outside_area.clone());
        }
        if threads.is_empty() {
            // Nothing was hit: what was never counted is zero.
            threads.push(vec![0; unit.thread_bytes as usize / 8]);
        }
        let late = self.late.iter().map(|(_, part)| part.areas(unit)).filter(|(_, threads)| !threads.is_empty());
        std::iter::once((process, threads)).chain(late).collect()
    }

    /// The variables as they stand in this process, without what was not measured.
    pub fn values(&self) -> Vec<Named> {
        let areas = self.areas();
        let threads: Vec<Vec<&[u64]>> =
            areas.iter().map(|(_, threads)| threads.iter().map(Vec::as_slice).collect()).collect();
        let ranks: Vec<RankAreas<'_>> = areas
            .iter()
            .zip(&threads)
            .map(|((process, _), threads)| RankAreas { rank: self.rank(), process, threads })
            .collect();
        self.unmeasured().mark(collect(self.unit(), &ranks))
    }

    pub fn unmeasured(&self) -> Unmeasured {
        let lost: Vec<Lost> = self.source.prepared.lost.iter().chain(&self.lost_late.0).cloned().collect();
        Unmeasured::of(&self.source.compiled, &lost, &self.lost_late.1)
    }

    pub fn add_loss(&self, loss: &mut Loss) {
        self.parts().for_each(|part| part.add_loss(&part.areas(self.unit()), loss));
        loss.unreadable_loads += self.outside_area[thread_word::UNREADABLE as usize / 8];
    }
}

/// When to look again if nothing has come for so long.
fn look_after(quiet: Duration) -> Duration {
    (quiet / QUIET_PART).clamp(LOOK_EVERY, LOOK_EVERY_MAX)
}

/// Puts a script in. Of `readable` mappings, if what takes them away is not seen, only some are.
fn inserted(
    target: &Target,
    prepared: &Prepared,
    unit: &Unit,
    ticks_per_second: f64,
    (readable, guarded): (&MappingTable, bool),
) -> Result<(Part, RangeTables), trimtab_session::Error> {
    let tables = RefCell::new(ScriptView::tables(unit));
    let initialise = |view: View<'_>| {
        let Some(script) = ScriptView::of(view) else { return };
        let rank = (target.rank_number(), target.ranks.map_or(-1, i64::from));
        script.start(unit, ScriptStart { rank, ticks_per_second, recording: true });
        // Another place may be tried, where they are empty again.
        *tables.borrow_mut() = ScriptView::tables(unit);
        script.set_ranges(&mut tables.borrow_mut(), readable, guarded);
    };
    let inserted = prepared.insert(target.pid, SETUP, &initialise)?;
    Ok((Part::new(inserted, unit), tables.into_inner()))
}

/// The bodies that run once, as soon as the script records.
fn bodies_of_once(unit: &Unit) -> Vec<usize> {
    let bodies = unit.bodies.iter().enumerate();
    bodies.filter(|(_, body)| body.when == When::Once).map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_nothing_comes_the_less_often_one_looks() {
        let after = |quiet_ms| look_after(Duration::from_millis(quiet_ms)).as_millis();
        assert_eq!([0, 100, 400, 60_000].map(after), [20, 20, 50, 100]);
    }
}
