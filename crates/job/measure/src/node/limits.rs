//! Limits of what a window costs: a function whose probes cost more than that is taken out while the window goes on.
//!
//! A function that is above a limit by itself stops by itself: the probes compare where they count anyway, told here how many
//! calls a thread may make in a tick of the window. From that call on nothing of it is counted, and a passage costs a comparison.
//! Here it is then taken out, on all ranks of the node. Functions that are too much only together are found here alone, by
//! looking some times a second: calls so far times what a pair of probes costs.
//!
//! Calls of MPI are limited one by one unless a limit is asked for: what the window is for is not to go because there are many
//! kinds of it. The function that counts iterations stays in: without it nothing ends the window. It ends instead, unless that
//! is a call of MPI and nobody has asked for a limit. Calls that free a handle stay in, because sizes are remembered by
//! handles, and so do those that go on in other measured functions, whose calls would else seem to be their own.
//!
//! Next: `trimtab-stub`'s `limits` stops; `trimtab-session`'s `partial` takes out; `readout` says what is missing since.

use super::readout::{calibrated_pair_ns, cost_of_inline_pair_ns, cost_of_pair_ns};
use super::team::{Member, Team};
use crate::options::Options;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use trimtab_os::{monotonic_ns, ticks};
use trimtab_session::Prepared;
use trimtab_stub::layout::{FunctionStat, NOBODY, Probe, flag, role, state, stopped_by};

/// Share of a window's time that probes may cost, percent, unless it is asked for: from 2 on reports warn.
const COST_PERCENT_MAX: f64 = 5.0;
/// A window counts as at least so long, seconds: nobody knows yet how long it will be.
const WINDOW_S_MIN: f64 = 0.2;
/// A call that polls follows the one before at once if so little lies between both, nanoseconds: two probes take 50 to 100 of it.
const POLLS_APART_NS_MAX: f64 = 150.0;
/// One that lasts longer than this has found work to do, nanoseconds.
const POLLS_IDLE_NS_MAX: f64 = 400.0;
/// Time between two looks.
const LOOK_NS: u64 = 5_000_000;
/// Cost of a pair of probes until it was measured, nanoseconds.
const PAIR_NS: f64 = 50.0;
/// One in [`FunctionLimit::calls_per_tick`](trimtab_stub::layout::FunctionLimit).
const TICKS_UNIT: f64 = 4_294_967_296.0;
/// Time in which a loop is looked for among all calls of MPI, seconds.
const ALL_CALLS_S: f64 = 1.0;
/// Group of the calls of MPI.
const COMM: u8 = 0;

/// How calls of MPI are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MpiCalls {
    /// Not at all.
    Stay,
    /// A function goes if it alone costs too much, even at the least that a probe can cost.
    OneByOne,
    /// As all other functions: a limit was asked for.
    AsAll,
}

/// Limits of what probes cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Share of the window's time.
    share_max: f64,
    /// The rule for calls of MPI while it is recorded.
    calls: MpiCalls,
    /// Calls of one function on one rank.
    hits_max: Option<u64>,
    looked_ns: u64,
    /// The function that counts iterations is above a limit.
    pub is_over: bool,
}

/// A function whose probes were taken out.
#[derive(Clone, Debug)]
pub(super) struct Out {
    pub function: u32,
    /// Time stamp since when nothing of it is counted.
    pub ticks: u64,
    /// The probes themselves had stopped.
    pub by_itself: bool,
    /// Why, for a reader.
    pub reason: String,
}

/// The cost of one function on one rank.
#[derive(Clone, Copy, Debug)]
struct Cost {
    function: u32,
    hits: u64,
    share: f64,
    /// Only its own share counts.
    is_alone: bool,
}

/// A function that is to be taken out.
#[derive(Clone, Debug)]
struct Found {
    function: u32,
    reason: String,
}

/// Functions that stay in whatever they cost, by number.
pub(super) fn staying(prepared: &Prepared, functions: usize) -> Vec<bool> {
    let mut stays = vec![false; functions];
    let frees = flag::FREES_TYPE | flag::FREES_COMM | flag::FREES_REQUEST;
    let goes_on_in_another = |probe: &Probe| {
        let next = (probe.next_plus_one as usize).checked_sub(1).and_then(|next| prepared.probe(next as u32));
        next.is_some_and(|next| next.function != NOBODY && next.function != probe.function)
    };
    for probe in prepared.probes() {
        if let Some(stays) = stays.get_mut(probe.function as usize) {
            *stays |= probe.flags & frees != 0 || probe.role == role::LOOP || goes_on_in_another(probe);
        }
    }
    stays
}

impl MpiCalls {
    /// While a loop is looked for. At first nobody knows which calls show it; one that is made without end hides all others.
    pub(super) fn while_observed(seconds: f64) -> MpiCalls {
        if seconds < ALL_CALLS_S { MpiCalls::Stay } else { MpiCalls::OneByOne }
    }
}

impl Limits {
    pub(super) fn calls(&self) -> MpiCalls {
        self.calls
    }

    pub(super) fn of(options: &Options) -> Limits {
        Limits {
            share_max: options.max_cost.unwrap_or(COST_PERCENT_MAX) / 100.0,
            calls: if options.max_cost.is_some() || options.max_hits.is_some() {
                MpiCalls::AsAll
            } else {
                MpiCalls::OneByOne
            },
            hits_max: options.max_hits,
            looked_ns: 0,
            is_over: false,
        }
    }

    /// Functions above a limit, the dearest first: as few as bring the rest below it.
    fn above(&self, costs: &[Cost]) -> Vec<(Cost, bool)> {
        let mut costs = costs.to_vec();
        costs.sort_by(|a, b| b.share.total_cmp(&a.share));
        let mut share: f64 = costs.iter().filter(|cost| !cost.is_alone).map(|cost| cost.share).sum();
        let mut above = Vec::new();
        for cost in costs {
            let has_many = self.hits_max.is_some_and(|hits| cost.hits > hits);
            let is_dear = if cost.is_alone { cost.share } else { share } > self.share_max;
            if is_dear || has_many {
                above.push((cost, has_many));
                share -= if cost.is_alone { 0.0 } else { cost.share };
            }
        }
        above
    }
}

impl Team {
    /// Takes out what is above a limit, on all ranks of the node.
    pub(super) fn keep_within_limits(&mut self, ticks_per_second: f64, calls: MpiCalls) {
        if monotonic_ns() - self.limits.looked_ns < LOOK_NS {
            return;
        }
        self.limits.looked_ns = monotonic_ns();
        self.have_them_stop(ticks_per_second, calls);
        let mut found: Vec<Found> = self.stopped();
        for member in self.members.iter().filter(|member| member.removal.is_none()) {
            let counting = counting(member);
            for (cost, has_many) in self.limits.above(&self.costs(member, ticks_per_second, calls)) {
                if Some(cost.function) == counting {
                    if !self.limits.is_over && !cost.is_alone {
                        self.limits.is_over = true;
                        self.news.push(format!(
                            "the window ended early: {}, and its passes count iterations; allow more with {}",
                            self.why(member, cost, has_many),
                            if has_many { "--max-hits" } else { "--max-cost" }
                        ));
                    }
                } else {
                    found.push(Found { function: cost.function, reason: self.why(member, cost, has_many) });
                }
            }
        }
        found.into_iter().for_each(|found| self.take_out(&found));
    }

    /// Tells the probes how many calls they may count.
    fn have_them_stop(&self, ticks_per_second: f64, calls: MpiCalls) {
        for member in self.members.iter().filter(|member| member.removal.is_none()) {
            let view = member.inserted.view();
            view.header().limit_ticks_min.store((WINDOW_S_MIN * ticks_per_second) as u64, Relaxed);
            // A limit of calls is one of all calls.
            let apart_ns = if self.limits.hits_max.is_some() { 0.0 } else { POLLS_APART_NS_MAX };
            let of_ns = |ns: f64| (ns * 1e-9 * ticks_per_second) as u64;
            view.header().polls_apart_ticks_max.store(of_ns(apart_ns), Relaxed);
            view.header().polls_idle_ticks_max.store(of_ns(POLLS_IDLE_NS_MAX), Relaxed);
            let prices = Prices::of(member, ticks_per_second, calls);
            let calls_are_counted = |function: u32| self.has_calls_max(function, calls);
            for function in 0..self.selection.functions.len() as u32 {
                let is_limited = self.is_limited(member, function, calls);
                let pair_ticks = prices.pair_ns(&self.selection.probes[function as usize]) * 1e-9 * ticks_per_second;
                let per_tick = self.limits.share_max / pair_ticks * TICKS_UNIT;
                let limit = view.limit(u64::from(function));
                limit.calls_per_tick.store(if is_limited { (per_tick as u64).max(1) } else { 0 }, Relaxed);
                limit.calls_max.store(
                    self.limits.hits_max.filter(|_| is_limited && calls_are_counted(function)).unwrap_or(0),
                    Relaxed,
                );
                if is_limited && limit.look_at_calls.load(Relaxed) == u64::MAX {
                    // The next call looks, and says when to look again.
                    limit.look_at_calls.store(0, Relaxed);
                }
            }
        }
    }

    /// Functions whose probes have stopped and are still in, each once.
    fn stopped(&self) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        for member in self.members.iter().filter(|member| member.removal.is_none()) {
            for function in self.stopped_in(member) {
                if !member.kept_in.contains(&function) && !found.iter().any(|found| found.function == function) {
                    found.push(Found { function, reason: self.why_stopped(member, function) });
                }
            }
        }
        found
    }

    /// Functions whose probes have stopped in this rank and of which that is not noted yet.
    fn stopped_in<'a>(&'a self, member: &'a Member) -> impl Iterator<Item = u32> + 'a {
        let is_stopped =
            |function: u32| member.inserted.view().limit(u64::from(function)).stopped_ticks.load(Acquire) != 0;
        let is_noted = |function: u32| member.out.iter().any(|out| out.function == function);
        let functions = 0..self.selection.functions.len() as u32;
        functions.filter(move |function| is_stopped(*function) && !is_noted(*function))
    }

    /// Notes what has stopped since the last look, when all probes are to go anyway.
    pub(super) fn note_stopped(&mut self) {
        let stopped = |member: &Member| {
            let outs = self
                .stopped_in(member)
                .map(|function| out_by_itself(member, function, self.why_stopped(member, function)));
            outs.collect::<Vec<Out>>()
        };
        let all: Vec<Vec<Out>> = self.members.iter().map(stopped).collect();
        self.members.iter_mut().zip(all).for_each(|(member, outs)| member.out.extend(outs));
    }

    fn why_stopped(&self, member: &Member, function: u32) -> String {
        let (rank, name) =
            (member.process.rank, super::naming::readable(&self.selection.functions[function as usize].name));
        let limit = member.inserted.view().limit(u64::from(function));
        if limit.stopped_by.load(Relaxed) == stopped_by::CALLS {
            return format!(
                "rank {rank} had called {name} {} times, and no more are counted",
                limit.calls_max.load(Relaxed)
            );
        }
        let percent = self.limits.share_max * 100.0;
        format!(
            "the probes of {name} had cost {percent}% of rank {rank}'s time so far, and all together may cost no \
             more; a larger --max-cost keeps them in"
        )
    }

    fn why(&self, member: &Member, cost: Cost, has_many: bool) -> String {
        let (rank, name) =
            (member.process.rank, super::naming::readable(&self.selection.functions[cost.function as usize].name));
        match self.limits.hits_max.filter(|_| has_many) {
            Some(hits) => format!("rank {rank} had called {name} {} times, more than {hits}", cost.hits),
            None => format!(
                "the probes of {name} cost {:.1}% of rank {rank}'s time, more than all may together ({}%)",
                cost.share * 100.0,
                self.limits.share_max * 100.0
            ),
        }
    }

    fn take_out(&mut self, Found { function, reason }: &Found) {
        let (function, name) = (*function, self.selection.functions[*function as usize].name.clone());
        for member in self.members.iter_mut().filter(|member| member.removal.is_none()) {
            let is_out = member.out.iter().any(|out| out.function == function);
            if is_out || member.kept_in.contains(&function) {
                continue;
            }
            let said = match member.inserted.take_out(&member.prepared, function) {
                Ok(Some(_)) => None,
                Ok(None) => Some("its patches can't be told from those of others".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            let has_stopped = member.inserted.view().limit(u64::from(function)).stopped_ticks.load(Acquire) != 0;
            match has_stopped {
                true => member.out.push(out_by_itself(member, function, reason.clone())),
                false if said.is_none() => {
                    member.out.push(Out { function, ticks: ticks(), by_itself: false, reason: reason.clone() });
                }
                false => {}
            }
            if let Some(said) = said {
                // Tried once: it would be tried at each look.
                member.kept_in.push(function);
                let rank = member.process.rank;
                self.news.push(format!("rank {rank}: {reason}; the probes of {name} stay in: {said}"));
            }
        }
    }

    /// True if a function goes if it costs too much.
    fn is_limited(&self, member: &Member, function: u32, calls: MpiCalls) -> bool {
        let is_mpi = self.selection.probes[function as usize].group == COMM;
        (calls != MpiCalls::Stay || !is_mpi) && !member.stays.get(function as usize).is_some_and(|stays| *stays)
    }

    /// True if a function goes if it is called too often.
    fn has_calls_max(&self, function: u32, calls: MpiCalls) -> bool {
        calls == MpiCalls::AsAll || self.selection.probes[function as usize].group != COMM
    }

    fn costs(&self, member: &Member, ticks_per_second: f64, calls: MpiCalls) -> Vec<Cost> {
        let view = member.inserted.view();
        let (header, first) = (view.header(), view.header().first_ticks.load(Relaxed));
        if header.state.load(Acquire) != state::RECORD || first == 0 {
            return Vec::new();
        }
        let seconds = (ticks().saturating_sub(first) as f64 / ticks_per_second).max(WINDOW_S_MIN);
        let prices = Prices::of(member, ticks_per_second, calls);
        let counts = |function: &u32| {
            let is_gone = member.out.iter().any(|out| out.function == *function) || member.kept_in.contains(function);
            !is_gone && self.is_limited(member, *function, calls)
        };
        let cost = |function: u32| {
            let hits = view.slots().map(|slot| slot.stat(u64::from(function))).map(FunctionStat::charged);
            let hits = hits.sum::<u64>();
            let probe = &self.selection.probes[function as usize];
            let share = hits as f64 * prices.pair_ns(probe) * 1e-9 / seconds;
            let hits = if self.has_calls_max(function, calls) { hits } else { 0 };
            Cost { function, hits, share, is_alone: probe.group == COMM && calls == MpiCalls::OneByOne }
        };
        (0..self.selection.functions.len() as u32).filter(counts).map(cost).collect()
    }
}

/// Cost of a pair of probes in one rank, nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Prices {
    /// Islands count by themselves where they can.
    is_inline: bool,
    inline_ns: f64,
    /// As it is in this window, with whatever disturbs it.
    in_window_ns: f64,
    /// As it is at least. A function that nobody has asked to limit goes only if even that is too much.
    calibrated_ns: f64,
    calls: MpiCalls,
}

impl Prices {
    fn of(member: &Member, ticks_per_second: f64, calls: MpiCalls) -> Prices {
        let view = member.inserted.view();
        let in_window_ns = cost_of_pair_ns(view, ticks_per_second).unwrap_or(PAIR_NS);
        Prices {
            is_inline: view.header().details_max.load(Relaxed) == 0,
            inline_ns: cost_of_inline_pair_ns(ticks_per_second).min(in_window_ns),
            in_window_ns,
            calibrated_ns: calibrated_pair_ns(view, ticks_per_second).unwrap_or(PAIR_NS),
            calls,
        }
    }

    fn pair_ns(&self, probe: &Probe) -> f64 {
        match () {
            () if self.is_inline && probe.is_simple() => self.inline_ns,
            () if probe.group == COMM && self.calls != MpiCalls::AsAll => self.calibrated_ns,
            () => self.in_window_ns,
        }
    }
}

/// The probes have stopped by themselves.
fn out_by_itself(member: &Member, function: u32, reason: String) -> Out {
    let ticks = member.inserted.view().limit(u64::from(function)).stopped_ticks.load(Acquire);
    Out { function, ticks, by_itself: true, reason }
}

/// The function whose calls count iterations.
fn counting(member: &Member) -> Option<u32> {
    let number = member.inserted.view().header().marker_probe.load(Relaxed);
    member.prepared.probe(number).map(|probe| probe.function)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn above(share_max: f64, hits_max: Option<u64>, costs: &[(f64, u64)]) -> Vec<u32> {
        let limits = Limits { share_max, calls: MpiCalls::AsAll, hits_max, looked_ns: 0, is_over: false };
        let cost = |(function, (share, hits)): (usize, &(f64, u64))| Cost {
            function: function as u32,
            hits: *hits,
            share: *share,
            is_alone: false,
        };
        let costs: Vec<Cost> = costs.iter().enumerate().map(cost).collect();
        limits.above(&costs).into_iter().map(|(cost, _)| cost.function).collect()
    }

    #[test]
    fn as_few_as_bring_the_rest_below_the_limit() {
        type Row = (&'static str, Option<u64>, &'static [(f64, u64)], &'static [u32]);
        let rows: &[Row] = &[
            ("below", None, &[(0.02, 5), (0.029, 5)], &[]),
            ("one of them", None, &[(0.01, 5), (0.7, 5), (0.03, 5)], &[1]),
            ("together", None, &[(0.03, 5), (0.04, 5)], &[1]),
            ("both", None, &[(0.06, 5), (0.08, 5)], &[1, 0]),
            ("hits", Some(10), &[(0.0, 11), (0.01, 10)], &[0]),
            ("no limit of hits", None, &[(0.0, u64::MAX)], &[]),
        ];
        for (name, hits_max, costs, expected) in rows {
            assert_eq!(above(0.05, *hits_max, costs), *expected, "{name}");
        }
    }
}
