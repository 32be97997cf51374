//! Which iteration of one rank is the same iteration on another?
//!
//! Every rank counts its anchor from another moment on, so rank r's count c is the job's iteration c + offset. The
//! offsets follow from what cannot be: nobody leaves a synchronising collective before all have entered, and the n-th
//! one of `MPI_COMM_WORLD` on one rank is the n-th one on all. From that comes a range of possible numberings per pair
//! of ranks; if only one is left, the offset is proven. Messages and collectives of smaller communicators narrow the
//! rest, on the assumption that a message is received in the iteration it is sent in (a program may send ahead before
//! its loop) and that communicator ids are not reused by disjoint groups; what they leave is chosen by the smallest
//! difference in time. Neither of the two gives a proof.
//!
//! Where two ranks exchange messages by receives that return when the message is there, it must have been sent by then,
//! not just before the iteration ended. That is taken as far as it contradicts nothing: between two calls that an anchor
//! parts, messages are received one iteration later.
//!
//! Next: `order` for the bounds; `start` for the iteration at which to record; `verify` for the check afterwards.

use crate::event::{CallEvent, PEER_ANY};
use crate::formulas::median;
use crate::order::{Bounds, Sequence, Track, lower_bound, pairs};
use std::collections::{BTreeMap, BTreeSet};

/// Numberings of a pair of ranks tried one by one; more are as good as unbounded.
const NUMBERINGS_MAX: i64 = 4096;

/// Offsets on either side of the one nearest in time that are compared where nothing bounds them.
const NEIGHBOURS: i64 = 2;

/// Share of matched calls that may agree on an offset before a numbering with other calls is taken for impossible.
const NEARLY_CONSISTENT: f64 = 0.5;

/// One rank's observation.
#[derive(Clone, Copy, Debug)]
pub struct RankStream<'a> {
    /// World rank.
    pub rank: u32,
    /// Its calls in program order, without gaps.
    pub events: &'a [CallEvent],
    /// Events that are calls of its anchor.
    pub occurrences: &'a [usize],
    /// The anchor is the same symbol as on most ranks.
    pub is_common: bool,
    /// The rank's own counter at the first of `occurrences`.
    pub first_count: u64,
    /// How far this rank's ticks may be from the common clock.
    pub uncertainty_ticks: u64,
    /// Which machine's clock they were read from: ranks of one machine differ by nothing, whatever the uncertainty.
    pub clock: u32,
}

/// The ranks' iterations on one scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Alignment {
    /// For each stream, in the order of the input: the job's iteration minus the rank's count. The smallest is 0.
    pub offsets: Vec<i64>,
    /// How sure that is.
    pub certainty: Certainty,
    /// Messages contradict that each is received in the iteration it is sent in.
    pub messages_cross: bool,
    /// Largest difference between ranks in the start of one iteration, ticks.
    pub skew_ticks_max: u64,
    /// For a reader: what the offsets rest on.
    pub explanation: String,
}

/// How sure the offsets are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Certainty {
    /// No other offsets are possible.
    Proven,
    /// The best of several, or resting on the assumptions of this module.
    Likely {
        /// The rank with the least certain offset.
        rank: u32,
        /// How much worse the next best offset of that rank fits in time, in iterations; 1 if no other was possible
        /// under the assumptions, 0 if another fits as well.
        margin: f64,
    },
}

/// Finds the offsets of all streams; see the module for what they rest on.
///
/// Streams without an anchor keep an offset chosen by nothing and make the result `Likely` with margin 0.
pub fn align(streams: &[RankStream]) -> Alignment {
    if streams.is_empty() {
        let explanation = "no rank to align".to_owned();
        let (certainty, messages_cross) = (Certainty::Proven, false);
        return Alignment { offsets: Vec::new(), certainty, messages_cross, skew_ticks_max: 0, explanation };
    }
    let tracks: Vec<Track> = streams.iter().map(|stream| Track::new(stream.events, stream.occurrences)).collect();
    let job = Job { streams, tracks: &tracks };
    let possible = job.offsets_by_world_collectives();
    let (bounds, messages) = job.bounds(&possible);
    let choices = job.choose(&possible, bounds);
    job.alignment(&possible, &choices, messages)
}

/// All streams and their iterations.
struct Job<'a> {
    streams: &'a [RankStream<'a>],
    tracks: &'a [Track],
}

/// Offsets to the first rank that the world's collectives leave possible.
#[derive(Clone, Debug, Default)]
struct Possible {
    /// The offsets; empty: nothing is known.
    offsets: BTreeSet<i64>,
    /// They are all there are.
    is_complete: bool,
}

/// The offset to the first rank that was chosen.
#[derive(Clone, Copy, Debug)]
struct Choice {
    offset: i64,
    margin: f64,
}

/// The messages and smaller communicators that helped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Messages {
    None,
    Used,
    Contradictory,
}

impl Job<'_> {
    /// For each rank the offsets to the first rank that fit every synchronising collective of the world.
    fn offsets_by_world_collectives(&self) -> Vec<Possible> {
        let mut numberings = Bounds::new(self.tracks.len());
        for (a, b) in pairs(self.tracks.len()) {
            if let Some(low) = lower_bound(&self.tracks[a].world, &self.tracks[b].world, self.slack(a, b)) {
                numberings.raise(a, b, low);
            }
        }
        numberings.close();
        let is_consistent = numberings.is_consistent();
        (0..self.tracks.len())
            .map(|rank| match numberings.range(rank, 0) {
                _ if rank == 0 => Possible { offsets: BTreeSet::from([0]), is_complete: true },
                (Some(low), Some(high)) if is_consistent && high - low < NUMBERINGS_MAX => {
                    self.offsets_of_numberings(rank, low, high)
                }
                _ => Possible::default(),
            })
            .collect()
    }

    /// The offsets that follow from each numbering of the collectives of `rank` against those of the first.
    fn offsets_of_numberings(&self, rank: usize, low: i64, high: i64) -> Possible {
        let common = self.streams[0].is_common && self.streams[rank].is_common;
        let mut possible = Possible { offsets: BTreeSet::new(), is_complete: common };
        for numbering in low..=high {
            let Some(votes) = self.votes(rank, numbering) else { continue };
            let total: usize = votes.values().sum();
            let Some((offset, most)) = votes.iter().max_by_key(|(_, count)| **count) else {
                possible.is_complete = false;
                continue;
            };
            let is_nearly = *most as f64 >= NEARLY_CONSISTENT * total as f64;
            possible.is_complete &= *most == total || !is_nearly;
            if *most == total || (is_nearly && !common) {
                possible.offsets.insert(*offset);
            }
        }
        possible
    }

    /// How many matched collectives ask for which offset; `None`: different functions would meet. Those before a rank's first
    /// anchor ask for none: a loop's passes are told from some pass on, so it is not known in which of the earlier ones they were.
    fn votes(&self, rank: usize, numbering: i64) -> Option<BTreeMap<i64, usize>> {
        let (own, first) = (&self.tracks[rank].world_calls, &self.tracks[0].world_calls);
        let mut votes = BTreeMap::new();
        for (index, (function, iteration)) in own.iter().enumerate() {
            let partner = usize::try_from(index as i64 + numbering).ok().and_then(|at| first.get(at));
            if let Some((partner_function, partner_iteration)) = partner {
                if function != partner_function {
                    return None;
                }
                if *iteration >= 0 && *partner_iteration >= 0 {
                    *votes.entry(partner_iteration - iteration).or_default() += 1;
                }
            }
        }
        Some(votes)
    }

    fn slack(&self, a: usize, b: usize) -> u64 {
        if self.streams[a].clock == self.streams[b].clock {
            return 0;
        }
        self.streams[a].uncertainty_ticks.saturating_add(self.streams[b].uncertainty_ticks)
    }

    /// Bounds on the offsets: what is proven, narrowed by messages unless those contradict it.
    fn bounds(&self, possible: &[Possible]) -> (Bounds, Messages) {
        let mut proven = Bounds::new(self.tracks.len());
        for (rank, one) in possible.iter().enumerate() {
            if let (Some(low), Some(high)) = (one.offsets.first(), one.offsets.last()) {
                proven.raise(rank, 0, *low);
                proven.raise(0, rank, -high);
            }
        }
        proven.close();
        let mut narrowed = proven.clone();
        let mut is_used = false;
        for (a, b) in pairs(self.tracks.len()) {
            for low in self.bounds_by_messages(a, b) {
                narrowed.raise(a, b, low);
                is_used = true;
            }
        }
        let mut exchanged = narrowed.clone();
        for (a, b) in pairs(self.tracks.len()) {
            if let (Some(low), Some(_)) = (self.bound_by_receives(a, b), self.bound_by_receives(b, a)) {
                exchanged.raise(a, b, low);
            }
        }
        exchanged.close();
        if is_used && exchanged.is_consistent() {
            return (exchanged, Messages::Used);
        }
        narrowed.close();
        match (is_used, narrowed.is_consistent()) {
            (false, _) => (proven, Messages::None),
            (true, true) => (narrowed, Messages::Used),
            (true, false) => (proven, Messages::Contradictory),
        }
    }

    /// Lower bound on the offset of `a` minus that of `b`, if each receive of `b` from `a` returned when it had its message.
    fn bound_by_receives(&self, a: usize, b: usize) -> Option<i64> {
        let peer = i32::try_from(self.streams[a].rank).ok()?;
        let events = self.streams[b].events;
        // A message may be received by some other call, which is not known to have returned with it.
        let is_otherwise = |event: &CallEvent| event.is_receive && (event.source == PEER_ANY || !event.completes);
        if events.iter().any(is_otherwise) {
            return None;
        }
        let received = self.tracks[b].per_iteration(events, true, |event| event.is_receive && event.source == peer)?;
        lower_bound(&self.sends(a, b)?, &received, self.slack(a, b))
    }

    /// Lower bounds on the offset of `a` minus that of `b`, assuming messages stay within their iteration.
    fn bounds_by_messages(&self, a: usize, b: usize) -> Vec<i64> {
        let slack = self.slack(a, b);
        let mut bounds = Vec::new();
        let bound = |before: &Sequence, after: &Sequence| lower_bound(before, after, slack);
        if let Some(sends) = self.sends(a, b).filter(|_| self.receives_each_iteration(b, a)) {
            bounds.extend(bound(&sends, &self.tracks[b].whole_iterations()));
        }
        for comm in self.small_comms(a).intersection(&self.small_comms(b)) {
            let first = |rank: usize| {
                let events = self.streams[rank].events;
                self.tracks[rank].per_iteration(events, false, |event| event.synchronising && event.comm == *comm)
            };
            if let (Some(before), Some(after)) = (first(a), first(b)) {
                bounds.extend(bound(&before, &after));
            }
        }
        bounds
    }

    /// The last send of each iteration of `from` to `to`.
    fn sends(&self, from: usize, to: usize) -> Option<Sequence> {
        let peer = i32::try_from(self.streams[to].rank).ok()?;
        self.tracks[from].per_iteration(self.streams[from].events, true, |event| event.is_send && event.peer == peer)
    }

    fn receives_each_iteration(&self, at: usize, from: usize) -> bool {
        let Ok(peer) = i32::try_from(self.streams[from].rank) else { return false };
        let receives = |event: &CallEvent| event.is_receive && (event.source == peer || event.source == PEER_ANY);
        self.tracks[at].per_iteration(self.streams[at].events, false, receives).is_some()
    }

    fn small_comms(&self, rank: usize) -> BTreeSet<u64> {
        let events = self.streams[rank].events.iter();
        events.filter(|event| event.synchronising && event.comm != 0).map(|event| event.comm).collect()
    }

    /// Fixes one rank after the other at the offset nearest in time among those still possible.
    fn choose(&self, possible: &[Possible], mut bounds: Bounds) -> Vec<Choice> {
        let mut choices = vec![Choice { offset: 0, margin: 1.0 }];
        for (rank, one) in possible.iter().enumerate().skip(1) {
            let choice = self.nearest(rank, &self.candidates(rank, one, bounds.range(rank, 0)));
            bounds.fix(rank, 0, choice.offset);
            choices.push(choice);
        }
        choices
    }

    /// Offsets of `rank` worth comparing: possible ones in the range, or those about the nearest in time.
    fn candidates(&self, rank: usize, possible: &Possible, range: (Option<i64>, Option<i64>)) -> Vec<i64> {
        let inside =
            |offset: &i64| range.0.is_none_or(|low| *offset >= low) && range.1.is_none_or(|high| *offset <= high);
        let known: Vec<i64> = possible.offsets.iter().copied().filter(inside).collect();
        if !known.is_empty() {
            return known;
        }
        let guess = self.nearest_in_time(rank);
        let centre = guess.max(range.0.unwrap_or(guess)).min(range.1.unwrap_or(i64::MAX));
        (centre - NEIGHBOURS..=centre + NEIGHBOURS).filter(inside).collect()
    }

    /// Offset at which the anchors of `rank` lie nearest to those of the first rank.
    fn nearest_in_time(&self, rank: usize) -> i64 {
        let (own, first) = (&self.tracks[rank].anchors, &self.tracks[0].anchors);
        let shifts = own.iter().enumerate().filter_map(|(number, ticks)| {
            let after = first.partition_point(|time| time < ticks);
            let around = [after.checked_sub(1), Some(after)].into_iter().flatten();
            let near = around.filter(|at| *at < first.len()).min_by_key(|at| first[*at].abs_diff(*ticks))?;
            Some(near as f64 - number as f64)
        });
        median(&shifts.collect::<Vec<_>>()).map_or(0, |shift| shift.round() as i64)
    }

    fn nearest(&self, rank: usize, candidates: &[i64]) -> Choice {
        let mut skews: Vec<(f64, i64)> = candidates.iter().map(|offset| (self.skew(rank, *offset), *offset)).collect();
        skews.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.abs().cmp(&b.1.abs())));
        match skews.as_slice() {
            [] => Choice { offset: 0, margin: 0.0 },
            [(skew, offset)] => Choice { offset: *offset, margin: if skew.is_finite() { 1.0 } else { 0.0 } },
            [(best, offset), (next, _), ..] => {
                let margin = (next - best) / self.time_per_iteration().max(1.0);
                Choice { offset: *offset, margin: if margin.is_finite() { margin.clamp(0.0, 1.0) } else { 0.0 } }
            }
        }
    }

    /// Median distance between the anchors of `rank` and the first rank's at this offset; infinite without overlap.
    fn skew(&self, rank: usize, offset: i64) -> f64 {
        let (own, first) = (&self.tracks[rank].anchors, &self.tracks[0].anchors);
        let gaps = own.iter().enumerate().filter_map(|(number, ticks)| {
            let at = usize::try_from(number as i64 + offset).ok()?;
            first.get(at).map(|time| time.abs_diff(*ticks) as f64)
        });
        median(&gaps.collect::<Vec<_>>()).unwrap_or(f64::INFINITY)
    }

    fn time_per_iteration(&self) -> f64 {
        let first = &self.tracks[0].anchors;
        median(&first.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    fn alignment(&self, possible: &[Possible], choices: &[Choice], messages: Messages) -> Alignment {
        let is_proven = |rank: usize| possible[rank].is_complete && possible[rank].offsets.len() == 1;
        let unproven: Vec<usize> = (0..choices.len()).filter(|rank| !is_proven(*rank)).collect();
        let least = unproven.iter().min_by(|a, b| choices[**a].margin.total_cmp(&choices[**b].margin));
        let certainty = least.map_or(Certainty::Proven, |rank| Certainty::Likely {
            rank: self.streams[*rank].rank,
            margin: choices[*rank].margin,
        });
        let own = choices.iter().zip(self.streams).map(|(choice, stream)| choice.offset - stream.first_count as i64);
        let smallest = own.clone().min().unwrap_or(0);
        Alignment {
            offsets: own.map(|offset| offset - smallest).collect(),
            certainty,
            messages_cross: messages == Messages::Contradictory,
            skew_ticks_max: self.skew_max(choices),
            explanation: explain(choices.len(), unproven.len(), messages),
        }
    }

    /// Largest difference in the start of an iteration that all ranks were seen to start.
    fn skew_max(&self, choices: &[Choice]) -> u64 {
        let span = |iteration: i64| {
            let starts = self.tracks.iter().zip(choices).map(|(track, choice)| {
                usize::try_from(iteration - choice.offset).ok().and_then(|at| track.anchors.get(at)).copied()
            });
            let starts: Vec<u64> = starts.collect::<Option<_>>()?;
            Some(starts.iter().max()? - starts.iter().min()?)
        };
        let iterations = self.tracks.first().map_or(0, |track| track.anchors.len()) as i64;
        (0..iterations).filter_map(span).max().unwrap_or(0)
    }
}

fn explain(ranks: usize, unproven: usize, messages: Messages) -> String {
    let rest = match messages {
        Messages::None => "by the smallest difference in time",
        Messages::Used => "by messages being received in the iteration they are sent in, then by time",
        Messages::Contradictory => "by the smallest difference in time; messages cross iterations",
    };
    match unproven {
        0 => format!("synchronising collectives leave one possible numbering on all {ranks} ranks"),
        _ if unproven + 1 >= ranks => format!("no synchronising collective fixes the iterations; aligned {rest}"),
        _ => format!("synchronising collectives fix {} of {ranks} ranks; the others {rest}", ranks - unproven),
    }
}
