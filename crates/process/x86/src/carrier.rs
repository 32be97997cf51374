//! Room for springboards where there is no padding: straight code of the same function, moved to an island.
//!
//! A carrier is a patch without a probe. Ten bytes or more of whole instructions that nothing enters behind the first
//! become a near jump to an island that runs them; what is left of them behind the jump is free for springboards. It
//! must be written before the springboard that lies in it, and taken back after. Code outside loops is preferred,
//! because whoever passes pays for two more jumps. Next: `site`, which asks when padding has run out.

use crate::instruction::Next;
use crate::probe_island::Island;
use crate::site::{Planner, check_page};
use crate::springboard::first_fit;
use crate::{NEAR_JUMP_LEN, Refusal, SHORT_JUMP_LEN, encode_near_jump, relocate};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use trimtab_types::ProcAddr;

/// A patch that only frees bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carrier<A = ProcAddr> {
    /// Exactly the bytes of the near jump to its island.
    pub overwritten: Range<A>,
    /// Whole instructions that run in the island instead.
    pub displaced: Range<A>,
    /// Where the island jumps back to; none if the displaced instructions never run on, or end in a call.
    pub resume: Option<A>,
}

impl Carrier {
    /// Every byte that is overwritten or taken out of use.
    pub fn covered(&self) -> Range<ProcAddr> {
        self.displaced.clone()
    }
}

/// Builds the island of `carrier` at address `at`. `original` holds the bytes of `carrier.displaced`.
///
/// # Errors
/// [`Refusal`] if something is out of reach from `at`.
pub fn build_carrier(carrier: &Carrier, original: &[u8], at: ProcAddr) -> Result<Island, Refusal> {
    let moved = relocate(original, carrier.displaced.start, at)?;
    let mut bytes = moved.bytes;
    if let Some(resume) = carrier.resume {
        bytes.extend(encode_near_jump(at + bytes.len() as u64, resume)?);
    }
    Ok(Island { bytes, entry: 0, moves: moved.offsets.clone(), copies: moved.offsets })
}

/// The carriers of one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carriers {
    made: Vec<(Carrier, Range<ProcAddr>)>,
    /// Backward branches as (to, from), once they are needed: whatever lies between is passed repeatedly.
    loops: Option<Vec<(ProcAddr, ProcAddr)>>,
}

/// Bytes that a carrier displaces at most; enough for three springboards.
const DISPLACED_MAX: u64 = 32;
/// How far a short jump reaches, both ways, from its end.
const REACH: (u64, u64) = (128, 127);

/// A carrier that would do, and what it costs: loops around it, a displaced call, a jump back, bytes.
struct Candidate {
    cost: (usize, bool, bool, u64),
    via: ProcAddr,
    carrier: Carrier,
}

impl Carriers {
    /// True if no carrier displaces any of these bytes.
    pub(crate) fn leave_alone(&self, range: &Range<ProcAddr>) -> bool {
        !self.made.iter().any(|(carrier, _)| overlap(&carrier.displaced, range))
    }

    /// A springboard for a short jump at `from`, in code that overlaps nothing of `taken`, and the carrier it lies in.
    pub(crate) fn springboard(
        &mut self,
        planner: &Planner<'_>,
        from: ProcAddr,
        taken: &[Range<ProcAddr>],
    ) -> Option<(ProcAddr, Carrier)> {
        let after = from.0.wrapping_add(SHORT_JUMP_LEN);
        let window = after.saturating_sub(REACH.0)..after.saturating_add(REACH.1 + NEAR_JUMP_LEN);
        let window = ProcAddr(window.start)..ProcAddr(window.end);
        for (carrier, free) in &mut self.made {
            if let Some(via) = first_fit(free.start.max(window.start)..free.end.min(window.end)) {
                free.start = via + NEAR_JUMP_LEN;
                return Some((via, carrier.clone()));
            }
        }
        // A jump that can't be followed may land anywhere.
        if !planner.analysis.unresolved_indirect.is_empty() {
            return None;
        }
        let best = self.candidates(planner, &window, taken).into_iter().min_by_key(|candidate| candidate.cost)?;
        let free = best.via + NEAR_JUMP_LEN..best.carrier.displaced.end;
        self.made.push((best.carrier.clone(), free));
        Some((best.via, best.carrier))
    }

    fn candidates(
        &mut self,
        planner: &Planner<'_>,
        window: &Range<ProcAddr>,
        taken: &[Range<ProcAddr>],
    ) -> Vec<Candidate> {
        let steps = &planner.analysis.steps;
        let first = steps.partition_point(|step| step.at.0 < window.start.0.saturating_sub(DISPLACED_MAX));
        let near = steps[first..].iter().take_while(|step| step.at < window.end);
        let found: Vec<Candidate> =
            (first..first + near.count()).filter_map(|index| self.candidate(planner, index, window, taken)).collect();
        found
    }

    /// The shortest carrier that begins with the instruction at `index` and has a springboard in `window`.
    fn candidate(
        &mut self,
        planner: &Planner<'_>,
        index: usize,
        window: &Range<ProcAddr>,
        taken: &[Range<ProcAddr>],
    ) -> Option<Candidate> {
        let analysis = planner.analysis;
        let start = analysis.steps[index].at;
        check_page(start, NEAR_JUMP_LEN).ok()?;
        let mut end = start;
        for (offset, step) in analysis.steps[index..].iter().enumerate() {
            let is_free = step.at == end
                && analysis.reached[index + offset]
                && step.end() - start <= DISPLACED_MAX
                && (step.at == start || !analysis.may_be_entered(step.at))
                && planner.check_displaceable(start, step).is_ok()
                && planner.exit_at(step.at).is_none()
                && leaves_alone(taken, &(step.at..step.end()))
                && self.leave_alone(&(step.at..step.end()));
            if !is_free {
                return None;
            }
            end = step.end();
            let goes_on = step.continues() && !step.is_call();
            let free = start + NEAR_JUMP_LEN..end;
            if let Some(via) = first_fit(free.start.max(window.start)..free.end.min(window.end)) {
                let resume = goes_on.then_some(end);
                let carrier = Carrier { overwritten: start..start + NEAR_JUMP_LEN, displaced: start..end, resume };
                let cost = (self.loops_around(planner, start), step.is_call(), goes_on, end - start);
                return Some(Candidate { cost, via, carrier });
            }
            if !goes_on {
                return None;
            }
        }
        None
    }

    fn loops_around(&mut self, planner: &Planner<'_>, addr: ProcAddr) -> usize {
        let loops = self.loops.get_or_insert_with(|| {
            let back = planner.analysis.steps.iter().filter_map(|step| match step.next() {
                Next::Branch(target) | Next::Jump(target) if target <= step.at => Some((target, step.at)),
                _ => None,
            });
            back.collect()
        });
        loops.iter().filter(|(to, from)| (*to..=*from).contains(&addr)).count()
    }
}

fn leaves_alone(taken: &[Range<ProcAddr>], range: &Range<ProcAddr>) -> bool {
    !taken.iter().any(|other| overlap(other, range))
}

fn overlap(one: &Range<ProcAddr>, other: &Range<ProcAddr>) -> bool {
    one.start < other.end && other.start < one.end
}
