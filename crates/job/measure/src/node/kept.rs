//! The recordings of a node's ranks that are summed here and handed over for a few ranks only.
//!
//! Each step may be asked again, if its answer was lost on the way, and has the same answer then.
//!
//! Next: `job::reduced`, which asks.

use super::Window;
use super::readout::{Ending, functions_of};
use crate::clock::Clock;
use crate::part::Part;
use crate::request::{Answer, Recording, Request};
use trimtab_types::report::NodeShare;
use trimtab_window::reduce::{Beside, OfNode, OfWindow, Seen, Sums, cut_alike, share_of};
use trimtab_window::{FunctionInfo, RankSample, Relation};

/// Recordings, their times on the lead's clock.
#[derive(Debug)]
pub(super) struct Kept {
    recording: Recording,
    functions: Vec<FunctionInfo>,
    window: OfWindow,
    /// Iterations that all ranks of the job share, once these are cut to them.
    iterations: u64,
}

/// A node's clock on that of the lead.
pub(super) fn relation_of(clocks: &[(u32, Relation)], node: u32) -> Relation {
    clocks.iter().find(|(of, _)| *of == node).map_or(Relation::SAME, |(_, relation)| *relation)
}

impl Window<'_> {
    /// Reads the recordings, if that was not done, and says what they have in common.
    pub(super) fn see_common(
        &mut self,
        ending: Ending,
        window: &OfWindow,
        clocks: &[(u32, Relation)],
        clock: &Clock,
    ) -> Answer {
        if self.kept.is_none() {
            let mut recording = self.recording(ending, clock);
            let relation = relation_of(clocks, self.node);
            recording.ranks.iter_mut().for_each(|sample| sample.onto_lead(&relation));
            let functions = functions_of(&self.team);
            self.kept = Some(Box::new(Kept { recording, functions, window: window.clone(), iterations: 0 }));
        }
        let common = |kept: &Kept| Seen::of(&kept.recording.ranks, &kept.functions, &kept.window);
        self.kept.as_deref().map_or(Answer::Done, |kept| Answer::Part(Part::Seen(common(kept))))
    }

    /// The answer to a question about recordings that are kept; [`Answer::Done`]: there are none.
    pub(super) fn ask_kept(&mut self, request: &Request) -> Answer {
        let Some(kept) = self.kept.as_deref_mut() else { return Answer::Done };
        match request {
            Request::Sum { seen } => Answer::Part(kept.sum(seen)),
            Request::SetBeside { ends } => {
                Answer::Part(Part::Beside(Beside::of(&kept.recording.ranks, &kept.window, ends)))
            }
            Request::ReadRanks { ranks } => Answer::Read(Box::new(kept.of_ranks(ranks))),
            _ => Answer::Done,
        }
    }
}

impl Kept {
    fn sum(&mut self, seen: &Seen) -> Part {
        self.iterations = cut_alike(&mut self.recording.ranks, &self.functions, &self.window, seen);
        let Recording { ranks, share, named_paths, warnings, site } = &self.recording;
        let of = OfNode { functions: &self.functions, share, paths: named_paths, warnings };
        let sums = Sums::of(ranks, of, &self.window, self.iterations);
        Part::Sums(Box::new(sums), site.clone().map(Box::new))
    }

    /// The recordings of those ranks which are here; none: nothing of the machine either.
    fn of_ranks(&self, ranks: &[u32]) -> Recording {
        let here = self.recording.ranks.iter().filter(|sample| ranks.contains(&sample.rank));
        let here: Vec<RankSample> = here.cloned().collect();
        let share = if here.is_empty() { NodeShare::default() } else { share_of(&self.recording.share, ranks) };
        Recording { ranks: here, warnings: Vec::new(), share, site: None, named_paths: Vec::new() }
    }
}
