//! A large job's results: summed on the way, with the details of the ranks that stand out.
//!
//! Nodes keep their recordings while they are asked what these have in common, for their sums, for how they stand beside the
//! ends of all, and last for the recordings of the few ranks that stand out.
//!
//! Next: `trimtab_window::reduce` for the values; `report`, which begins here or reads all.

use super::drive::WindowLead;
use super::recording::Recorded;
use crate::error::Error;
use crate::options::Options;
use crate::part::Part;
use crate::request::{Answer, MarkerSite, Request};
use std::collections::BTreeSet;
use trimtab_mpi::Group;
use trimtab_types::report::{LoopPlace, NodeShare};
use trimtab_window::reduce::{Beside, OfWindow, ReducedInput, Seen, Sums};
use trimtab_window::{RankSample, WindowInput};

/// All that came of a large job.
pub(super) struct Reduced {
    pub of_window: OfWindow,
    pub seen: Seen,
    pub iterations: u64,
    pub sums: Sums,
    pub beside: Beside,
    /// The ranks that stand out, and their machines.
    pub shown: Vec<RankSample>,
    pub nodes: Vec<NodeShare>,
    pub site: Option<MarkerSite>,
}

impl Reduced {
    /// With the window's facts, for its report.
    pub(super) fn input<'a>(&'a self, window: &'a WindowInput) -> ReducedInput<'a> {
        let Reduced { of_window, seen, iterations, sums, beside, .. } = self;
        ReducedInput { window, of_window, seen, iterations: *iterations, sums, beside }
    }
}

/// True if the job is so large that it is summed on the way, and nothing was asked for that needs every rank's details.
pub(super) fn is_reduced(lead: &WindowLead) -> bool {
    let options: &Options = lead.options;
    let needs_all =
        options.assumed.is_some() || options.detail > 0 || options.groups.contains(&Group::Omp) || options.follow;
    let counts_all = !options.counters.is_empty() || options.first_call_s.is_some();
    !needs_all && !counts_all && lead.membership.rank_total() > options.detail_ranks_max as usize
}

/// Asks for all of it; the nodes forget the window.
pub(super) fn reduce(
    lead: &mut WindowLead,
    recorded: &Recorded,
    main_loop: Option<LoopPlace>,
    by_iterations: bool,
) -> Result<Reduced, Error> {
    let of_window = OfWindow {
        cut_to: recorded.in_common,
        main_loop,
        ticks_per_second: lead.clock.ticks_per_second(),
        by_iterations,
    };
    let (ended, is_whole) = (recorded.ended, recorded.is_whole);
    let (window, clocks) = (Box::new(of_window.clone()), lead.membership.relations());
    let malformed = || Error::Malformed { what: "the sums of nodes" };
    let common = lead.membership.ask_merged(Request::SeeCommon { ended, is_whole, window, clocks })?;
    let Part::Seen(seen) = common else { return Err(malformed()) };
    let summed = lead.membership.ask_merged(Request::Sum { seen: Box::new(seen.clone()) })?;
    let Part::Sums(sums, site) = summed else { return Err(malformed()) };
    let set_beside = lead.membership.ask_merged(Request::SetBeside { ends: sums.ends() })?;
    let Part::Beside(beside) = set_beside else { return Err(malformed()) };
    let ranks = sums.standing_out();
    let read = lead.membership.ask(Request::ReadRanks { ranks }, |answer| match answer {
        Answer::Read(recording) => Some(recording),
        _ => None,
    })?;
    let with_ranks = read.into_iter().map(|(_, recording)| recording).filter(|recording| !recording.ranks.is_empty());
    let (mut shown, mut nodes) = (Vec::new(), Vec::new());
    for recording in with_ranks {
        shown.extend(recording.ranks);
        nodes.push(recording.share);
    }
    let hosts: BTreeSet<String> = shown.iter().map(|rank: &RankSample| rank.host.clone()).collect();
    nodes.retain(|share: &NodeShare| hosts.contains(&share.host));
    nodes.sort_by(|a, b| a.host.cmp(&b.host));
    let iterations = seen.shared_iterations(&of_window);
    Ok(Reduced { of_window, seen, iterations, sums: *sums, beside, shown, nodes, site: site.map(|site| *site) })
}
