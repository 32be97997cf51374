//! From shared memory to samples: sums over threads, links in world ranks, calls still open at the window's end.
//!
//! Next: `job::report`; `trimtab-window` turns these samples into numbers for people.

use super::Window;
use super::limits::Out;
use super::naming::readable;
use super::observe::{main_slot, members};
use super::selection::PROBE_GROUPS;
use super::team::{Member, Team};
use crate::clock::Clock;
use crate::request::{Facts, Recording};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use trimtab_os::ticks;
use trimtab_session::Refused;
use trimtab_stub::layout::{
    CALIBRATION_CALLS, FRAMES_MAX, LINK_COLLECTIVE, LINK_FROM_PEER, NOBODY, NotedUsage, PEER_ALL_OTHERS, Slot,
    USER_GROUP, flag, noted_by, outermost, owner,
};
use trimtab_stub::view::{SlotView, View};
use trimtab_track::Job;
use trimtab_types::report::{Ended, FunctionGroup, MarkerSource};
use trimtab_window::{
    Borders, DetailSample, FunctionInfo, FunctionSample, IterationMark, LinkSample, RankSample, ThreadSample, Untimed,
    Usage,
};

/// How a recording ended, as whoever reads it was told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub ended: Ended,
    /// Every rank recorded to the end that was meant.
    pub is_whole: bool,
    pub by_iterations: bool,
}

impl Window<'_> {
    /// The ranks' recordings; they are restored by now.
    pub(super) fn recording(&mut self, ending: Ending, clock: &Clock) -> Recording {
        self.drain();
        let ticks_per_second = clock.ticks_per_second();
        // Of a window by time the only mark is where it ended.
        let marks_of = |marks| if ending.by_iterations { marks } else { &[][..] };
        let members = self.team.members.iter().zip(self.marks.iter().map(|marks| marks_of(marks.as_slice())));
        let ranks =
            members.map(|(member, marks)| Reader { team: &self.team, member, ticks_per_second }.sample(marks, &ending));
        let share = self.beside.share(&host_name());
        let mut ranks: Vec<RankSample> = ranks.collect();
        let named_paths = self.name_paths(&mut ranks);
        for (place, rank) in ranks.iter_mut().enumerate() {
            let marks = if ending.by_iterations { rank.marks.len() } else { 0 };
            let borders = Borders { first_ticks: rank.first_ticks, last_ticks: rank.last_ticks, marks };
            (rank.counters, rank.counter_cost) = self.counters.told(place, borders);
        }
        let (site, path_warnings) = self.marker_site();
        let warnings = rank_warnings(&self.team).into_iter().chain(path_warnings).collect();
        Recording { ranks, warnings, share, site, named_paths }
    }
}

fn rank_warnings(team: &Team) -> Vec<String> {
    let mut warnings = Vec::new();
    for member in &team.members {
        let view = member.inserted.view();
        let rank = member.process.rank;
        let said = view.header().world_rank_plus_one.load(Acquire);
        if said != 0 && said != u64::from(rank.0) + 1 {
            warnings.push(format!(
                "process {} is rank {} to the MPI library but {rank} to its environment",
                member.process.pid,
                said - 1
            ));
        }
        let dropped: u64 =
            view.slots().map(|slot| slot.slot.dropped.load(Relaxed)).sum::<u64>() + view.header().dropped.load(Relaxed);
        if dropped > 0 {
            warnings.push(format!(
                "rank {rank}: {dropped} calls were not measured (too many threads, too deep, or from inside a probe)"
            ));
        }
        let of_others = view.header().passes_of_others.load(Relaxed);
        if of_others > 0 {
            let which = match is_silent_thread_counted(view) {
                true => "which called no MPI",
                false => "the first in the loop that calls MPI",
            };
            warnings.push(format!(
                "rank {rank}: iterations are passes of one thread, {which}; {of_others} passes of other threads count as \
                 calls only"
            ));
        }
        if member.removal.as_ref().is_some_and(|removal| !removal.foreign.is_empty()) {
            warnings
                .push(format!("rank {rank}: some code was changed meanwhile, not by trimtab, and was left as it is"));
        }
    }
    warnings
}

/// True if the ring of the thread whose passes count knows no call of MPI: it passed the loop for a while before another one
/// came out of its first call there, or none makes any.
fn is_silent_thread_counted(view: View<'_>) -> bool {
    // A pass is kept without the place it came from.
    let has_called = |slot: SlotView<'_>| {
        let written = slot.slot.ring_written.load(Acquire);
        let first = written.saturating_sub(view.geometry().ring_capacity);
        (first..written).any(|index| slot.call(index).site.load(Relaxed) != 0)
    };
    !main_slot(view).is_some_and(has_called)
}

/// The groups that are measured, and the program.
pub(super) fn facts(job: &Job, team: &Team) -> Facts {
    let first = team.members.first();
    let builds = first.map_or_else(Vec::new, |member| {
        let modules = member.modules.modules.iter();
        let wanted =
            modules.enumerate().filter(|(index, module)| *index == 0 || trimtab_mpi::is_mpi_module(&module.path));
        wanted.map(|(_, module)| format!("{} {}", module.path, module.loaded.image.build_id)).collect()
    });
    let process = first.map(|member| &member.process);
    Facts {
        functions: functions_of(team),
        marker: team.selection.marker.map(|(index, source)| (index as u32, source == MarkerSource::Named)),
        mpi: team.library.as_ref().map_or_else(|| "no MPI library".to_string(), trimtab_mpi::Library::title),
        size: job.size,
        program: process.map_or_else(String::new, |process| process.executable.display().to_string()),
        arguments: process.map_or_else(Vec::new, |process| process.arguments.iter().skip(1).cloned().collect()),
        builds,
        started_unix_s: process.and_then(|process| start_unix_s(process.start_time_ticks)),
    }
}

/// The measured functions, by names that people read.
pub(super) fn functions_of(team: &Team) -> Vec<FunctionInfo> {
    team.selection.functions.iter().map(readable_info).collect()
}

fn readable_info(info: &FunctionInfo) -> FunctionInfo {
    let other_names = info.other_names.iter().map(|name| readable(name)).collect();
    FunctionInfo { name: readable(&info.name), other_names, ..info.clone() }
}

/// This machine's name.
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_string()
}

/// Start of a process on the calendar: boot time plus its start in clock ticks (100 per second on every Linux). `None`: the
/// kernel does not say when it was booted.
fn start_unix_s(start_time_ticks: u64) -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let boot = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok())?;
    Some(boot + start_time_ticks as f64 / 100.0)
}

/// The time of saving and restoring registers before the first and behind the last time stamp of a call, ticks.
const ISLANDS_TICKS: f64 = 10.0;

/// The work of islands besides reading the clock where they count by themselves, both together, ticks.
const INLINE_TICKS: f64 = 20.0;
/// Readings of the clock in a round, and rounds of which the fastest counts.
const READINGS: u32 = 64;
const READING_ROUNDS: u32 = 16;

/// A window shorter than this says nothing of processor times that were read beside its borders.
const BESIDE_SECONDS_MIN: f64 = 0.1;

/// Reads one rank.
pub(super) struct Reader<'a> {
    pub team: &'a Team,
    pub member: &'a Member,
    ticks_per_second: f64,
}

/// A call that was entered and not left when the window ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCall {
    /// Thread pointer.
    thread: u64,
    /// The function's number.
    pub function: u32,
    /// Where it comes from, as the routine tells; 0: not known.
    pub path: u64,
    /// Its time in the window.
    pub ticks: u64,
}

impl Reader<'_> {
    fn sample(&self, marks: &[IterationMark], ending: &Ending) -> RankSample {
        let view = self.member.inserted.view();
        let header = view.header();
        let first_ticks = header.first_ticks.load(Relaxed);
        let last_ticks = self.last_ticks(marks, ending);
        let main_key = main_slot(view).map(|slot| slot.slot.key.load(Relaxed));
        let (main, others): (Vec<_>, Vec<_>) = view.slots().partition(|s| Some(s.slot.key.load(Relaxed)) == main_key);
        let mut open: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        let calls = view.slots().flat_map(|slot| self.open_calls(&slot, first_ticks, last_ticks));
        let is_in = |function: u32| !self.member.out.iter().any(|out| out.function == function);
        let calls = calls.chain(self.blocked_calls(first_ticks, last_ticks));
        let calls: Vec<OpenCall> = calls.filter(|call| is_in(call.function)).collect();
        for call in &calls {
            *open.entry((call.thread, call.function)).or_insert(0) += call.ticks;
        }
        let comm = |slot: &SlotView<'_>| {
            slot.slot.group_ticks[0].load(Relaxed) + self.open_group_ticks(&open, slot.slot.key.load(Relaxed), 0)
        };
        let removal = self.member.removal.as_ref();
        let unseen = self.unseen_ends(first_ticks, last_ticks);
        let (links, untold) = self.links();
        RankSample {
            rank: self.member.process.rank.0,
            pid: self.member.process.pid.0,
            host: host_name(),
            first_ticks,
            last_ticks,
            marks: marks.to_vec(),
            complete: first_ticks > 0 && (ending.is_whole || self.came_to_the_end(ending)),
            counts_silent_thread: ending.by_iterations && self.counts_silent_thread(&open),
            functions: self.functions(&open, &unseen),
            comm_ticks: main.iter().map(comm).sum::<u64>().max(self.blocked_comm_ticks(&open)),
            threads: others.iter().map(|slot| ThreadSample { comm_ticks: comm(slot) }).collect(),
            group_ticks: self.groups(&open),
            links,
            unattributed_bytes: untold
                + view.slots().map(|slot| slot.slot.unattributed_bytes.load(Relaxed)).sum::<u64>(),
            unknown_starts: view.slots().map(|slot| slot.slot.unknown_starts.load(Relaxed)).sum(),
            usage: self.usage(last_ticks.saturating_sub(first_ticks)),
            counters: Vec::new(),
            counter_cost: None,
            pause_insert_us: self.member.inserted.pause_ns as f64 / 1e3,
            pause_remove_us: removal.map(|removal| removal.pause_ns_max as f64 / 1e3),
            pause_inside_us: self.member.inserted.pause_asked_ns() as f64 / 1e3,
            probe_ns: self.probe_ns(),
            inline_hits: view.slots().map(|slot| self.inline_hits(&slot)).sum(),
            inline_ns: cost_of_inline_pair_ns(self.ticks_per_second),
            probe_hits: view.slots().map(|slot| self.probe_hits(&slot)).sum(),
            points: self.member.inserted.point_count as u64,
            details: self.details(first_ticks, last_ticks),
            untimed: [
                self.taken_out(first_ticks),
                self.lacking(&self.member.prepared.endless),
                self.partly_timed(&unseen),
            ]
            .concat(),
            unseen: [self.taken_out(first_ticks), self.lacking(&self.member.prepared.refused)].concat(),
            paths: self.paths(&calls),
            sizes: self.sizes(),
            team: self.team(&calls, main_key),
        }
    }

    /// True if passes count of a thread that called no MPI, although another one did that goes through the same loop.
    fn counts_silent_thread(&self, open: &BTreeMap<(u64, u32), u64>) -> bool {
        let view = self.member.inserted.view();
        let number = view.header().marker_probe.load(Acquire);
        let owner = view.header().marker_thread.load(Acquire);
        // Where the marker is a call, that of any thread counts.
        if owner::thread(owner) == 0 || !is_silent_thread_counted(view) {
            return false;
        }
        let marker = self.member.prepared.probe(number);
        let passes =
            |slot: &SlotView<'_>| marker.map(|probe| slot.stat(u64::from(probe.function)).passes.load(Relaxed));
        let others = view.slots().filter(|slot| slot.slot.key.load(Relaxed) != owner::thread(owner));
        let mut callers = others.filter(|slot| slot.slot.ring_written.load(Acquire) > 0).peekable();
        if self.contains_calls(owner) && (callers.peek().is_some() || self.blocked_comm_ticks(open) > 0) {
            return true;
        }
        callers.any(|slot| passes(&slot).is_some_and(|passes| passes > 0))
    }

    /// True if the loop is known to contain calls of MPI, as one does that was found by them, and its thread counts for its
    /// time alone: then calls are those of a thread that is on its way through it.
    fn contains_calls(&self, owner: u64) -> bool {
        let is_named = self.team.selection.marker.is_some_and(|(_, source)| source == MarkerSource::Named);
        !is_named && owner & owner::BY_TIME != 0
    }

    /// Calls of each function of which nobody saw where they end, if there are any.
    fn unseen_ends(&self, first: u64, last: u64) -> BTreeMap<usize, u64> {
        let (view, shared) = (self.member.inserted.view(), &self.member.prepared.shared);
        let mut unseen: BTreeMap<usize, u64> = BTreeMap::new();
        for slot in view.slots() {
            for function in 0..self.team.selection.functions.len() {
                *unseen.entry(function).or_default() += slot.stat(function as u64).unseen.load(Relaxed);
            }
            // Left where calls of several functions go on: it may have been any of them.
            let left = slot.slot.orphans.load(Relaxed).checked_sub(2).and_then(|number| shared.get(&(number as u32)));
            left.into_iter().flatten().for_each(|function| *unseen.entry(*function as usize).or_default() += 1);
        }
        let blocked = self.blocked(first, last);
        let blocked = blocked.iter().filter_map(|(_, probe)| shared.get(probe)).flatten();
        blocked.for_each(|function| *unseen.entry(*function as usize).or_default() += 1);
        unseen.retain(|_, calls| *calls > 0);
        unseen
    }

    /// Functions whose probes were taken out before the window's end, and since when.
    fn taken_out(&self, first: u64) -> Vec<Untimed> {
        let after_us = |out: &Out| {
            let ticks = out.ticks.checked_sub(first).filter(|_| first > 0).unwrap_or(0);
            (ticks as f64 / self.ticks_per_second * 1e6) as u64
        };
        let untimed = |out: &Out| Untimed {
            function: out.function as usize,
            reason: self.said_of(out, first),
            is_out: true,
            out_after_us: after_us(out),
        };
        self.member.out.iter().map(untimed).collect()
    }

    fn said_of(&self, out: &Out, first: u64) -> String {
        let when = match out.ticks.checked_sub(first).filter(|_| first > 0) {
            Some(since) => format!("{:.3} s after the window began", since as f64 / self.ticks_per_second),
            None => "before the window began".to_owned(),
        };
        let how = if out.by_itself {
            format!("its probes stopped counting {when} and were taken out")
        } else {
            format!("its probes were taken out {when}")
        };
        format!("{how}, because {}; its calls are a lower bound", out.reason)
    }

    /// The same with the reasons.
    fn partly_timed(&self, unseen: &BTreeMap<usize, u64>) -> Vec<Untimed> {
        let untimed = |(function, calls): (&usize, &u64)| {
            let name = &self.team.selection.functions[*function].name;
            let jumps =
                self.member.prepared.tails.iter().filter(|tail| tail.function == *name && tail.unseen.is_some());
            let mut to: Vec<&str> = jumps.map(|tail| tail.to.as_str()).collect();
            to.dedup();
            let to = if to.is_empty() { String::new() } else { format!(" ({})", to.join(", ")) };
            let reason = format!(
                "{calls} of its calls went on behind a jump to another function{to}, and nobody saw where they end"
            );
            Untimed { function: *function, reason, is_out: false, out_after_us: 0 }
        };
        unseen.iter().map(untimed).collect()
    }

    /// Functions of which not all is seen here, with the reasons.
    fn lacking(&self, refused: &[Refused]) -> Vec<Untimed> {
        let functions = &self.team.selection.functions;
        let position = |name: &str| functions.iter().position(|function| function.name == name);
        let all = refused.iter();
        all.filter_map(|one| {
            let reason = one.reason.to_string();
            Some(Untimed { function: position(&one.name)?, reason, is_out: false, out_after_us: 0 })
        })
        .collect()
    }

    /// The system's counts in a window of so many ticks.
    fn usage(&self, ticks: u64) -> Option<Usage> {
        let (header, seconds) = (self.member.inserted.view().header(), ticks as f64 / self.ticks_per_second);
        let is_beside = header.usage_first.valid.load(Acquire) == noted_by::BESIDE;
        if is_beside && seconds < BESIDE_SECONDS_MIN {
            return None;
        }
        usage(&header.usage_first, &header.usage_last)
    }

    /// True if this rank, unlike others, was not the one that ended early.
    fn came_to_the_end(&self, ending: &Ending) -> bool {
        ending.ended == Ended::ProgramEnded && self.member.was_alive
    }

    /// A window of iterations that was cut short ends with its last whole one... unless nothing was marked.
    fn last_ticks(&self, marks: &[IterationMark], ending: &Ending) -> u64 {
        let told = self.member.inserted.view().header().last_ticks.load(Relaxed);
        match marks.last() {
            Some(last) if told == 0 && ending.by_iterations => last.ticks,
            _ => told,
        }
    }

    /// Probes passed while recording. Of a call that polled on and had work to do, or waited for nothing, both count as one: they
    /// take half as long.
    fn probe_hits(&self, slot: &SlotView<'_>) -> u64 {
        let functions = 0..self.team.selection.functions.len() as u64;
        let polled = functions.map(|function| {
            let stat = slot.stat(function);
            stat.polled_work.load(Relaxed) + stat.polled_vainly.load(Relaxed)
        });
        let polled: u64 = polled.sum();
        slot.slot.hits.load(Relaxed) + self.inline_hits(slot) + polled
    }

    /// Probes passed without our routine noticing: entries and exits of functions the user named.
    fn inline_hits(&self, slot: &SlotView<'_>) -> u64 {
        let simple = self.member.prepared.probes().filter(|probe| probe.is_simple() && self.details_max() == 0);
        simple
            .map(|probe| {
                let stat = slot.stat(u64::from(probe.function));
                2 * (stat.calls.load(Relaxed) + stat.nested.load(Relaxed))
            })
            .sum()
    }

    fn details_max(&self) -> u64 {
        self.member.inserted.view().header().details_max.load(Relaxed)
    }

    fn probe_ns(&self) -> Option<f64> {
        cost_of_pair_ns(self.member.inserted.view(), self.ticks_per_second)
    }

    /// Calls that were entered and not left when the window ended.
    fn open_calls(&self, slot: &SlotView<'_>, first: u64, last: u64) -> Vec<OpenCall> {
        let key = slot.slot.key.load(Relaxed);
        let depth = slot.slot.depth.load(Relaxed).min(FRAMES_MAX) as usize;
        let frames = slot.slot.frames[..depth].iter().filter(|f| f.outermost.load(Relaxed) & outermost::FUNCTION != 0);
        let framed = frames.filter_map(|frame| {
            let probe = self.member.prepared.probe(frame.probe.load(Relaxed) as u32)?;
            let timed = probe.flags & flag::TIMED != 0;
            let path = frame.path.load(Relaxed);
            timed.then_some((probe.function, path, frame.stack.load(Relaxed), frame.ticks.load(Relaxed)))
        });
        let simple = (0..self.team.selection.functions.len() as u32).map(|function| {
            let stat = slot.stat(u64::from(function));
            (function, 0, stat.open_stack.load(Relaxed), stat.open_ticks.load(Relaxed))
        });
        let still_open = |stack: u64| stack != 0 && self.is_on_stack(key, stack);
        let open = framed.chain(simple).filter(|(_, _, stack, _)| still_open(*stack));
        let inside = open.filter(|(.., entered)| first > 0 && *entered < last);
        inside
            .map(|(function, path, _, entered)| OpenCall {
                thread: key,
                function,
                path,
                ticks: last - entered.max(first),
            })
            .collect()
    }

    /// Calls that were entered before the probes went in and never returned.
    fn blocked_calls(&self, first: u64, last: u64) -> Vec<OpenCall> {
        let functions = self.blocked(first, last).into_iter().filter_map(|(key, probe)| {
            let function = self.member.prepared.probe(probe)?.function;
            (function != NOBODY).then_some(OpenCall { thread: key, function, path: 0, ticks: last - first })
        });
        functions.collect()
    }

    /// Threads, and the probes of the functions they were inside of when the probes went in and when they came out, and that
    /// passed no probe between.
    fn blocked(&self, first: u64, last: u64) -> Vec<(u64, u32)> {
        let Some(removal) = self.member.removal.as_ref().filter(|_| first > 0 && last > first) else {
            return Vec::new();
        };
        let view = self.member.inserted.view();
        let passed = |key: u64| view.slots().any(|slot| slot.slot.key.load(Relaxed) == key);
        let blocked = self.member.inserted.inside.iter().filter(|at| removal.inside.contains(at) && !passed(at.0));
        blocked.copied().collect()
    }

    /// Communication time of the thread that was blocked longest.
    fn blocked_comm_ticks(&self, open: &BTreeMap<(u64, u32), u64>) -> u64 {
        let keys = self.member.inserted.inside.iter().map(|(key, _)| *key);
        let known: Vec<u64> = self.member.inserted.view().slots().map(|slot| slot.slot.key.load(Relaxed)).collect();
        keys.filter(|key| !known.contains(key)).map(|key| self.open_group_ticks(open, key, 0)).max().unwrap_or(0)
    }

    /// True if a frame at `stack` was still there when the probes were taken out: one that was left by longjmp or an
    /// exception lies below the thread's stack pointer.
    fn is_on_stack(&self, key: u64, stack: u64) -> bool {
        let removal = self.member.removal.as_ref();
        removal.is_some_and(|removal| removal.stacks.iter().any(|(thread, now)| *thread == key && stack >= *now))
    }

    fn open_group_ticks(&self, open: &BTreeMap<(u64, u32), u64>, key: u64, group: u8) -> u64 {
        let of_group = |function: u32| self.team.selection.probes[function as usize].group == group;
        open.iter().filter(|((owner, function), _)| *owner == key && of_group(*function)).map(|(_, ticks)| ticks).sum()
    }

    fn functions(&self, open: &BTreeMap<(u64, u32), u64>, unseen: &BTreeMap<usize, u64>) -> Vec<FunctionSample> {
        let view = self.member.inserted.view();
        let mut samples = Vec::new();
        for index in 0..self.team.selection.functions.len() {
            let mut sample = FunctionSample { function: index, ..FunctionSample::default() };
            for slot in view.slots() {
                let stat = slot.stat(index as u64);
                sample.calls += stat.calls.load(Relaxed);
                sample.nested += stat.nested.load(Relaxed);
                sample.polled_on += stat.polled_on.load(Relaxed);
                sample.ticks += stat.ticks.load(Relaxed);
                sample.bytes += stat.bytes.load(Relaxed);
                sample.unknown_bytes += stat.unknown_bytes.load(Relaxed);
                sample.bytes_max = sample.bytes_max.max(stat.bytes_max.load(Relaxed));
                sample.argument_sum = sample.argument_sum.wrapping_add(stat.argument_sum.load(Relaxed) as i64);
                let first = stat.first_ticks.load(Relaxed);
                if first != 0 && (sample.first_ticks == 0 || first < sample.first_ticks) {
                    sample.first_ticks = first;
                }
                sample.last_ticks = sample.last_ticks.max(stat.last_ticks.load(Relaxed));
            }
            let still_open: u64 =
                open.iter().filter(|((_, function), _)| *function as usize == index).map(|(_, ticks)| ticks).sum();
            sample.ticks += still_open;
            if sample.calls + sample.nested > 0 || sample.ticks > 0 || unseen.contains_key(&index) {
                samples.push(sample);
            }
        }
        samples
    }

    fn groups(&self, open: &BTreeMap<(u64, u32), u64>) -> Vec<(FunctionGroup, u64)> {
        let view = self.member.inserted.view();
        let others = PROBE_GROUPS.into_iter().enumerate().skip(1);
        // Functions the user named are each timed on their own; they may lie inside each other and add up to nothing.
        let others = others.filter(|(number, _)| *number != usize::from(USER_GROUP));
        let measured = others.filter(|(_, group)| self.team.selection.functions.iter().any(|f| f.group == *group));
        measured
            .map(|(number, group)| {
                let closed: u64 = view.slots().map(|slot| slot.slot.group_ticks[number].load(Relaxed)).sum();
                let keys = view.slots().map(|slot| slot.slot.key.load(Relaxed));
                let still_open: u64 = keys.map(|key| self.open_group_ticks(open, key, number as u8)).sum();
                (group, closed + still_open)
            })
            .collect()
    }

    /// Traffic by the other rank, and the bytes of which nobody can say which rank that is.
    fn links(&self) -> (Vec<LinkSample>, u64) {
        let view = self.member.inserted.view();
        let own = self.member.process.rank.0;
        let world_size = view.world_size();
        let mut links: BTreeMap<(u32, bool, bool), (u64, u64)> = BTreeMap::new();
        let mut untold = 0;
        for slot in view.slots() {
            for entry in slot.links() {
                let key = entry.key.load(Relaxed) - 1;
                let is_collective = key & LINK_COLLECTIVE != 0;
                let comm = (key >> 32) as u32 & 0xffff;
                let is_from_peer = key & LINK_FROM_PEER != 0;
                // Only the world's members need no list.
                let world = || (comm == 0).then(|| (0..world_size as i32).collect());
                let ranks: Vec<i32> = members(view, &slot, comm).or_else(world).unwrap_or_default();
                let others = receivers(key as u32, &ranks, own);
                // A rank that is alone in a communicator has no others.
                if others.is_empty() && (key as u32 != PEER_ALL_OTHERS || ranks.is_empty()) {
                    untold += entry.bytes.load(Relaxed);
                }
                for other in others {
                    let sum = links.entry((other, is_collective, is_from_peer)).or_default();
                    sum.0 += entry.messages.load(Relaxed);
                    sum.1 += entry.bytes.load(Relaxed);
                }
            }
        }
        let samples = links.into_iter().filter(|(_, (messages, _))| *messages > 0);
        let sample = |((other, is_collective, is_from_peer), (messages, bytes))| LinkSample {
            other,
            is_from_other: is_from_peer,
            is_collective,
            messages,
            bytes,
        };
        (samples.map(sample).collect(), untold)
    }

    fn details(&self, first: u64, last: u64) -> Vec<DetailSample> {
        let view = self.member.inserted.view();
        let capacity = view.geometry().detail_capacity;
        let mut details = Vec::new();
        for (thread, slot) in view.slots().enumerate() {
            for function in 0..self.team.selection.functions.len() {
                let kept = slot.stat(function as u64).details.load(Relaxed).min(capacity);
                for index in 0..kept {
                    let record = slot.detail(function as u64, index);
                    // The call that opens the window was entered just before it.
                    let enter_ticks = record.enter_ticks.load(Relaxed).max(first);
                    if enter_ticks >= last {
                        continue;
                    }
                    let duration = record.duration_ticks.load(Relaxed);
                    details.push(DetailSample {
                        thread: thread as u32,
                        function,
                        enter_ticks,
                        ticks: (duration > 0).then_some(duration),
                        arguments: record.arguments.iter().map(|argument| argument.load(Relaxed)).collect(),
                    });
                }
            }
        }
        details.sort_by_key(|detail| detail.enter_ticks);
        details
    }
}

/// Cost of one entry plus exit: what the routines took in this very window, with cold caches and all, plus the islands
/// around them; as calibrated where nothing was recorded.
pub(super) fn cost_of_pair_ns(view: View<'_>, ticks_per_second: f64) -> Option<f64> {
    let calibrated = calibrated_ticks(view);
    let sum = |word: fn(&Slot) -> &AtomicU64| view.slots().map(|slot| word(slot.slot).load(Relaxed)).sum::<u64>();
    let (overhead, hits) = (sum(|slot| &slot.overhead_ticks), sum(|slot| &slot.hits));
    let islands = view.header().empty_ticks.load(Acquire) as f64 + ISLANDS_TICKS;
    let in_window = if hits > 0 { 2.0 * overhead as f64 / hits as f64 + islands } else { 0.0 };
    let ticks = calibrated.max(in_window);
    (ticks > 0.0).then(|| ticks / ticks_per_second * 1e9)
}

/// The same as calibrated: the least it can be in this process.
pub(super) fn calibrated_pair_ns(view: View<'_>, ticks_per_second: f64) -> Option<f64> {
    let ticks = calibrated_ticks(view);
    (ticks > 0.0).then(|| ticks / ticks_per_second * 1e9)
}

fn calibrated_ticks(view: View<'_>) -> f64 {
    view.header().calibrated_ticks.load(Acquire) as f64 / CALIBRATION_CALLS as f64
}

/// Cost of one entry plus exit where islands count by themselves: two readings of the clock, as long as one takes on this
/// machine, and words of memory.
pub(super) fn cost_of_inline_pair_ns(ticks_per_second: f64) -> f64 {
    static READING_TICKS: OnceLock<f64> = OnceLock::new();
    let reading = READING_TICKS.get_or_init(|| {
        let round = || {
            let begun = ticks();
            (0..READINGS).for_each(|_| {
                std::hint::black_box(ticks());
            });
            ticks().saturating_sub(begun)
        };
        (0..READING_ROUNDS).map(|_| round()).min().unwrap_or(0) as f64 / f64::from(READINGS)
    });
    (2.0 * reading + INLINE_TICKS) / ticks_per_second * 1e9
}

/// World ranks that a link's peer stands for.
fn receivers(peer: u32, ranks: &[i32], own: u32) -> Vec<u32> {
    if peer == PEER_ALL_OTHERS {
        return ranks.iter().filter(|rank| **rank >= 0 && **rank as u32 != own).map(|rank| *rank as u32).collect();
    }
    ranks.get(peer as usize).filter(|rank| **rank >= 0).map(|rank| *rank as u32).into_iter().collect()
}

/// Difference of two `struct rusage`, both from one who read them.
fn usage(first: &NotedUsage, last: &NotedUsage) -> Option<Usage> {
    let (first_by, last_by) = (first.valid.load(Acquire), last.valid.load(Acquire));
    if first_by == 0 || first_by != last_by {
        return None;
    }
    let word = |usage: &NotedUsage, index: usize| usage.words[index].load(Relaxed);
    let seconds = |usage: &NotedUsage, index: usize| word(usage, index) as f64 + word(usage, index + 1) as f64 / 1e6;
    let counted = |index: usize| word(last, index).saturating_sub(word(first, index));
    Some(Usage {
        cpu_user_s: (seconds(last, 0) - seconds(first, 0)).max(0.0),
        cpu_system_s: (seconds(last, 2) - seconds(first, 2)).max(0.0),
        minor_faults: counted(8),
        major_faults: counted(9),
        voluntary: counted(16),
        involuntary: counted(17),
    })
}
