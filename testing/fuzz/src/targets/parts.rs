//! Any bytes as two values of a large job's window that meet in the tree: each is refused, or they merge, and are what they were
//! where they do not.
//!
//! The first two bytes are the length of the first value.
//!
//! Next: `trimtab_agent::parts`; `talk` for what else agents say.

use crate::hostile::Target;
use crate::mutate::Mutator;
use anyhow::{Context, Result};
use trimtab_agent::parts::{Carried, Parts};
use trimtab_measure::{FailedKind, Part};
use trimtab_reduce::Filter;
use trimtab_types::report::{FunctionGroup, NodeShare};
use trimtab_window::reduce::{Beside, Ends, Marks, OfNode, OfWindow, Seen, Sums};
use trimtab_window::{FunctionInfo, FunctionSample, IterationMark, MarkTimes, RankSample};

/// The target.
pub struct PartsOfWindows;

impl Target for PartsOfWindows {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let nodes = [parts(0), parts(1)];
        let pairs = nodes[0].iter().zip(&nodes[1]).map(|(one, other)| pair(one, other));
        let failed = Carried::failing(1, FailedKind::Ended, "it ended".to_owned());
        pairs.chain([pair(&nodes[0][0], &failed), pair(&failed, &Carried::default())]).collect()
    }

    fn length_max(&self) -> usize {
        8 * 1024
    }

    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, other: &[u8]) {
        mutator.change(input, other, &[&[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x80, 0x80, 0x01]]);
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some((length, bytes)) = input.split_first_chunk::<2>() else { return false };
        let (one, other) = bytes.split_at(usize::from(u16::from_le_bytes(*length)).min(bytes.len()));
        let (Ok(one), Ok(other)) = (Parts.decode(one), Parts.decode(other)) else { return false };
        let bytes_of = |value: &Carried| Parts.encode(value).expect("what was read can be written");
        let mut merged = one.clone();
        let is_merged = Parts.merge(&mut merged, other.clone()).is_ok();
        if !is_merged {
            assert_eq!(bytes_of(&merged), bytes_of(&one), "a value that does not fit changes nothing");
        }
        let mut turned = other;
        assert_eq!(Parts.merge(&mut turned, one).is_ok(), is_merged, "either both ways or none");
        is_merged
    }
}

fn pair(one: &Carried, other: &Carried) -> Result<Vec<u8>> {
    let (one, other) = (Parts.encode(one)?, Parts.encode(other)?);
    let length = u16::try_from(one.len()).context("a short value")?;
    Ok([&length.to_le_bytes()[..], &one, &other].concat())
}

/// One of each kind that a node of two ranks says.
fn parts(node: u32) -> Vec<Carried> {
    let ranks: Vec<RankSample> = (node * 2..node * 2 + 2).map(rank).collect();
    let send =
        FunctionInfo { name: "MPI_Send".to_owned(), group: FunctionGroup::Comm, timed: true, ..Default::default() };
    let functions = [send];
    let window = OfWindow { cut_to: Some(4), main_loop: None, ticks_per_second: 1e6, by_iterations: true };
    let of = OfNode { functions: &functions, share: &NodeShare::default(), paths: &[], warnings: &["slow".to_owned()] };
    let times = MarkTimes {
        rank: node,
        first_iteration: 3,
        enter_ticks: vec![50, 150, 250],
        exit_ticks: vec![90, 190, 290],
        uncertainty_ticks: 5,
    };
    let ends = Ends { shortest_s: 1e-4, longest_s: 1e-3, communication_s: 1e-4 };
    let all = [
        Part::Marks(Marks::of(&times, &[3, 4, 5], false)),
        Part::Seen(Seen::of(&ranks, &functions, &window)),
        Part::Sums(Box::new(Sums::of(&ranks, of, &window, 4)), None),
        Part::Beside(Beside::of(&ranks, &window, &ends)),
    ];
    all.into_iter().map(|part| Carried { part: Some(part), ..Carried::default() }).collect()
}

fn rank(rank: u32) -> RankSample {
    let ticks = 1_000 + u64::from(rank) * 13;
    let mark = |at: u64| IterationMark { ticks: 50 + at * ticks, comm_ticks: at * (ticks / 3) };
    RankSample {
        rank,
        host: format!("n{rank}"),
        first_ticks: 50,
        last_ticks: 50 + 4 * ticks,
        marks: (0..=4).map(mark).collect(),
        complete: true,
        comm_ticks: 4 * (ticks / 3),
        functions: vec![FunctionSample { function: 0, calls: 4, ticks, first_ticks: 60, ..Default::default() }],
        ..RankSample::default()
    }
}
