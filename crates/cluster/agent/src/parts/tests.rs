//! The filter keeps the laws, whatever nodes say, and refuses what no node says.

use super::*;
use proptest::prelude::*;
use trimtab_reduce::laws::{check, check_shape};
use trimtab_types::report::{FunctionGroup, NodeShare};
use trimtab_window::reduce::{OfNode, OfWindow, Sums};
use trimtab_window::{FunctionInfo, FunctionSample, IterationMark, RankSample};

fn sums(node: u32, seed: u64) -> Part {
    let rank = |rank: u32| {
        let ticks = 1_000 + seed % 977 + u64::from(rank) * 13;
        let mark = |at: u64| IterationMark { ticks: 50 + at * ticks, comm_ticks: at * (ticks / 3 + seed % 7) };
        RankSample {
            rank,
            host: format!("n{node}"),
            first_ticks: 50,
            last_ticks: 50 + 4 * ticks,
            marks: (0..=4).map(mark).collect(),
            complete: !seed.is_multiple_of(3),
            comm_ticks: 4 * (ticks / 3),
            functions: vec![FunctionSample { function: 0, calls: 4, ticks, first_ticks: 60, ..Default::default() }],
            ..RankSample::default()
        }
    };
    let ranks: Vec<RankSample> = (node * 3..node * 3 + 3).map(rank).collect();
    let functions =
        [FunctionInfo { name: "MPI_Send".into(), group: FunctionGroup::Comm, timed: true, ..Default::default() }];
    let window = OfWindow { cut_to: None, main_loop: None, ticks_per_second: 1e6, by_iterations: true };
    let of = OfNode { functions: &functions, share: &NodeShare::default(), paths: &[], warnings: &[] };
    Part::Sums(Box::new(Sums::of(&ranks, of, &window, 4)), None)
}

fn carried() -> impl Strategy<Value = Vec<Carried>> {
    proptest::collection::vec((any::<u64>(), 0_u8..5), 5).prop_map(|all| {
        let one = |(node, (seed, kind)): (usize, (u64, u8))| match kind {
            0 => Carried::failing(node as u32, FailedKind::Ended, format!("gone {seed}")),
            1 => Carried::default(),
            _ => Carried { part: Some(sums(node as u32, seed)), ..Carried::default() },
        };
        all.into_iter().enumerate().map(one).collect()
    })
}

proptest! {
    #[test]
    fn what_nodes_say_merges_in_any_order(
        values in carried(),
        choices in proptest::collection::vec((0_usize..8, 0_usize..8), 4),
    ) {
        let lawful = check(&Parts, &values[0], &values[1], &values[2]);
        prop_assert!(lawful.is_ok(), "{}", lawful.unwrap_err());
        let lawful = check_shape(&Parts, &values, &choices);
        prop_assert!(lawful.is_ok(), "{}", lawful.unwrap_err());
    }

    #[test]
    fn hostile_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in any::<usize>()) {
        let _ = Parts.decode(&bytes).map(|value| Parts.merge(&mut Carried::default(), value));
        let mut spoilt = Parts.encode(&Carried { part: Some(sums(1, 7)), ..Carried::default() }).expect("bytes");
        let at = at % spoilt.len();
        spoilt[at] ^= bytes.first().copied().unwrap_or(1);
        if let Ok(value) = Parts.decode(&spoilt) {
            let _ = Parts.merge(&mut Carried { part: Some(sums(2, 9)), ..Carried::default() }, value);
        }
    }
}

#[test]
fn a_rank_never_counts_twice() {
    let one = || Carried { part: Some(sums(1, 7)), ..Carried::default() };
    let mut all = one();
    assert!(Parts.merge(&mut all, one()).is_err());
    assert_eq!(all, one());
}
