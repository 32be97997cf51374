//! Limits of what a window costs: a function whose probes cost more than that is taken out while the window goes on.
//!
//! The ranks' memory already says how often each function was passed; times what a pair of probes costs, that is what the
//! report calls the cost. So nothing is added to what a call costs, and the limit holds for code that never calls our
//! routine too. The other side of it: nothing is stopped unless trimtab looks, and it looks some times a second.
//!
//! The function that counts iterations stays in: without it nothing ends the window. It ends instead.
//!
//! Next: `trimtab-session`'s `partial` takes out; `readout` says what is missing since.

use super::readout::cost_of_pair_ns;
use super::team::{Member, Team};
use crate::options::Options;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use trimtab_os::{monotonic_ns, ticks};
use trimtab_stub::layout::{role, state};

/// Share of a window's time that probes may cost, percent, unless it is asked for: from 2 on reports warn.
const COST_PERCENT_MAX: f64 = 5.0;
/// A window counts as at least so long, seconds: nobody knows yet how long it will be.
const WINDOW_S_MIN: f64 = 0.2;
/// Time between two looks.
const LOOK_NS: u64 = 5_000_000;
/// Cost of a pair of probes until it was measured, nanoseconds.
const PAIR_NS: f64 = 50.0;
/// The same at most where islands count by themselves: two time stamps and some words of memory.
const INLINE_PAIR_NS: f64 = 30.0;
/// Group of the calls of MPI.
const COMM: u8 = 0;

/// Limits of what probes cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Share of the window's time.
    share_max: f64,
    /// The calls of MPI are taken out too: that was asked for. Without them nobody knows the share of communication.
    of_mpi: bool,
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
    /// Time stamp.
    pub ticks: u64,
    /// Why, for a reader.
    pub reason: String,
}

/// The cost of one function on one rank.
#[derive(Clone, Copy, Debug)]
struct Cost {
    function: u32,
    hits: u64,
    share: f64,
}

impl Limits {
    pub(super) fn of(options: &Options) -> Limits {
        Limits {
            share_max: options.max_cost.unwrap_or(COST_PERCENT_MAX) / 100.0,
            of_mpi: options.max_cost.is_some(),
            hits_max: options.max_hits,
            looked_ns: 0,
            is_over: false,
        }
    }

    /// Functions above a limit, the dearest first: as few as bring the rest below it.
    fn above(&self, costs: &[Cost]) -> Vec<(Cost, bool)> {
        let mut costs = costs.to_vec();
        costs.sort_by(|a, b| b.share.total_cmp(&a.share));
        let mut share: f64 = costs.iter().map(|cost| cost.share).sum();
        let mut above = Vec::new();
        for cost in costs {
            let has_many = self.hits_max.is_some_and(|hits| cost.hits > hits);
            if share > self.share_max || has_many {
                above.push((cost, has_many));
                share -= cost.share;
            }
        }
        above
    }
}

impl Team {
    /// Takes out what is above a limit, on all ranks of the node. `with_mpi`: the calls of MPI too, which are needed while a
    /// loop is looked for.
    pub(super) fn keep_within_limits(&mut self, ticks_per_second: f64, with_mpi: bool) {
        if monotonic_ns() - self.limits.looked_ns < LOOK_NS {
            return;
        }
        self.limits.looked_ns = monotonic_ns();
        let mut found: Vec<(u32, String)> = Vec::new();
        for member in self.members.iter().filter(|member| member.removal.is_none()) {
            let counting = counting(member);
            for (cost, has_many) in self.limits.above(&self.costs(member, ticks_per_second, with_mpi)) {
                if Some(cost.function) == counting {
                    if !self.limits.is_over {
                        self.limits.is_over = true;
                        self.news.push(format!(
                            "the window ended early: {}, and its passes count iterations; allow more with {}",
                            self.why(member, cost, has_many),
                            if has_many { "--max-hits" } else { "--max-cost" }
                        ));
                    }
                } else if !found.iter().any(|(function, _)| *function == cost.function) {
                    found.push((cost.function, self.why(member, cost, has_many)));
                }
            }
        }
        found.into_iter().for_each(|(function, reason)| self.take_out(function, &reason));
    }

    fn why(&self, member: &Member, cost: Cost, has_many: bool) -> String {
        let (rank, name) =
            (member.process.rank, super::selection::readable(&self.selection.functions[cost.function as usize].name));
        match self.limits.hits_max.filter(|_| has_many) {
            Some(hits) => format!("rank {rank} had called {name} {} times, more than {hits}", cost.hits),
            None => format!(
                "the probes of {name} cost {:.1}% of rank {rank}'s time, more than all may together ({}%)",
                cost.share * 100.0,
                self.limits.share_max * 100.0
            ),
        }
    }

    fn take_out(&mut self, function: u32, reason: &str) {
        let name = self.selection.functions[function as usize].name.clone();
        for member in self.members.iter_mut().filter(|member| member.removal.is_none()) {
            if member.out.iter().any(|out| out.function == function) {
                continue;
            }
            let said = match member.inserted.take_out(&member.prepared, function) {
                Ok(Some(_)) => {
                    member.out.push(Out { function, ticks: ticks(), reason: reason.to_owned() });
                    continue;
                }
                Ok(None) => "its patches can't be told from those of others".to_owned(),
                Err(error) => error.to_string(),
            };
            // Tried once: it would be tried at each look.
            member.kept_in.push(function);
            let rank = member.process.rank;
            self.news.push(format!("rank {rank}: {reason}; the probes of {name} stay in: {said}"));
        }
    }

    fn costs(&self, member: &Member, ticks_per_second: f64, with_mpi: bool) -> Vec<Cost> {
        let view = member.inserted.view();
        let (header, first) = (view.header(), view.header().first_ticks.load(Relaxed));
        if header.state.load(Acquire) != state::RECORD || first == 0 {
            return Vec::new();
        }
        let seconds = (ticks().saturating_sub(first) as f64 / ticks_per_second).max(WINDOW_S_MIN);
        let pair_ns = cost_of_pair_ns(view, ticks_per_second).unwrap_or(PAIR_NS);
        let is_inline = header.details_max.load(Relaxed) == 0;
        let with_mpi = with_mpi && (self.limits.of_mpi || self.limits.hits_max.is_some());
        let counts = |function: &u32| {
            let probe = &self.selection.probes[*function as usize];
            let is_gone = member.out.iter().any(|out| out.function == *function) || member.kept_in.contains(function);
            !is_gone && probe.role != role::LOOP && (with_mpi || probe.group != COMM)
        };
        let cost = |function: u32| {
            let hits = view
                .slots()
                .map(|slot| slot.stat(u64::from(function)))
                .map(|stat| stat.calls.load(Relaxed) + stat.nested.load(Relaxed));
            let hits = hits.sum::<u64>();
            let probe = &self.selection.probes[function as usize];
            let pair_ns = match () {
                // Told of, but no reason to take it out.
                () if probe.group == COMM && !self.limits.of_mpi => 0.0,
                () if is_inline && probe.is_simple() => pair_ns.min(INLINE_PAIR_NS),
                () => pair_ns,
            };
            Cost { function, hits, share: hits as f64 * pair_ns * 1e-9 / seconds }
        };
        (0..self.selection.functions.len() as u32).filter(counts).map(cost).collect()
    }
}

/// The function whose calls count iterations.
fn counting(member: &Member) -> Option<u32> {
    let number = member.inserted.view().header().marker_probe.load(Relaxed);
    member.prepared.probes.get(number as usize).map(|probe| probe.function)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn above(share_max: f64, hits_max: Option<u64>, costs: &[(f64, u64)]) -> Vec<u32> {
        let limits = Limits { share_max, of_mpi: true, hits_max, looked_ns: 0, is_over: false };
        let cost = |(function, (share, hits)): (usize, &(f64, u64))| Cost {
            function: function as u32,
            hits: *hits,
            share: *share,
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
