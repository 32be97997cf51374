//! Every built-in downstream filter keeps its law, whatever the tree's shape, and so does one that a user might write;
//! one that doesn't is caught.
//!
//! Next: `src/laws.rs` for the law, `trimtab-sim` for the same through nodes that die.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use trimtab_reduce::down::{Context, Scatter, in_context, scatter};
use trimtab_reduce::{Bad, Down, DownFilter, RankSet, Registry, laws};
use trimtab_types::Rank;

/// A filter that a user might add: an array with a byte for each rank, from some rank on; a subtree gets what spans
/// its ranks.
struct Slice;

impl DownFilter for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn narrow(&self, payload: &[u8], ranks: &RankSet) -> Result<Vec<u8>, Bad> {
        let malformed = Bad::Form { filter: self.name(), what: "no first rank" };
        let (first, bytes) = payload.split_first().ok_or(malformed)?;
        let (Some(low), Some(high)) = (ranks.lowest(), ranks.highest()) else { return Ok(vec![0]) };
        let kept = (u32::from(*first)..).zip(bytes).filter(|(rank, _)| (low.0..=high.0).contains(rank));
        let kept: Vec<(u32, u8)> = kept.map(|(rank, byte)| (rank, *byte)).collect();
        let begin = kept.first().map_or(0, |(rank, _)| *rank as u8);
        Ok(std::iter::once(begin).chain(kept.into_iter().map(|(_, byte)| byte)).collect())
    }
}

/// A mistake that a user might make: each level takes its half, whoever is below.
struct Half;

impl DownFilter for Half {
    fn name(&self) -> &'static str {
        "half"
    }

    fn narrow(&self, payload: &[u8], _ranks: &RankSet) -> Result<Vec<u8>, Bad> {
        Ok(payload[..payload.len() / 2].to_vec())
    }
}

fn ranks() -> impl Strategy<Value = RankSet> {
    proptest::collection::vec(0_u32..40, 0..40).prop_map(|ranks| ranks.into_iter().map(Rank).collect())
}

/// The ranks below each node on a way down.
fn path() -> impl Strategy<Value = Vec<RankSet>> {
    proptest::collection::vec(ranks(), 1..5)
}

fn hold(filter: &dyn DownFilter, payload: &[u8], path: &[RankSet]) -> Result<(), TestCaseError> {
    let lawful = laws::check_down(filter, payload, path);
    prop_assert!(lawful.is_ok(), "{}: {}", filter.name(), lawful.unwrap_err());
    Ok(())
}

proptest! {
    #[test]
    fn what_ranks_get_does_not_depend_on_the_way(
        bytes in proptest::collection::vec(any::<u8>(), 41),
        meant in ranks(),
        path in path(),
    ) {
        let parts: BTreeMap<Rank, Vec<u8>> = meant.iter().map(|rank| (rank, bytes[..rank.0 as usize].to_vec())).collect();
        hold(&Scatter, &scatter(&parts).unwrap(), &path)?;
        hold(&Context, &in_context(&meant, &bytes).unwrap(), &path)?;
        hold(&Slice, &bytes, &path)?;
    }

    #[test]
    fn hostile_bytes_are_narrowed_or_refused(
        bytes in proptest::collection::vec(prop_oneof![0_u8..4, any::<u8>()], 0..60), path in path(),
    ) {
        for filter in [&Scatter as &dyn DownFilter, &Context, &Slice] {
            hold(filter, &bytes, &path)?;
        }
        let _ = postcard::from_bytes::<Down>(&bytes).map(|down| Registry::default().build_down(&down).is_ok());
    }
}

#[test]
fn a_filter_that_looks_at_the_way_is_caught() {
    let path = [RankSet::range(Rank(0), Rank(9)), RankSet::range(Rank(0), Rank(3))];
    let broken = laws::check_down(&Half, b"eightbit", &path);
    assert!(matches!(broken, Err(laws::Broken::Narrowing { .. })), "{broken:?}");
}

#[test]
fn a_users_filter_is_found_by_name() {
    let mut registry = Registry::default();
    registry.register_down("slice", |_| Ok(Arc::new(Slice)));
    let own = |name: &str| Down::Own { name: name.into(), parameters: vec![] };
    let slice = registry.build_down(&own("slice")).unwrap().unwrap();
    assert_eq!(slice.narrow(&[3, 30, 40, 50, 60], &RankSet::range(Rank(4), Rank(5))), Ok(vec![4, 40, 50]));
    assert_eq!(registry.build_down(&own("other")).err(), Some(Bad::Unknown { name: "other".into() }));
    assert!(registry.build_down(&Down::Same).unwrap().is_none(), "no filter, nothing to do");
}
