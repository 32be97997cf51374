//! Recordings of several ranks as one that has their sums: what a report tells of functions, groups and payloads asks for no
//! more.
//!
//! Next: `reduce`, which sends such a recording up in place of the ranks' own.

use crate::input::{FunctionSample, RankSample, SizeSample, Untimed};
use std::collections::BTreeMap;
use trimtab_types::report::FunctionGroup;

/// A rank's sums, with moments of calls since its own beginning.
pub(crate) fn folded(rank: &RankSample) -> RankSample {
    let has = |one: &&Untimed| rank.functions.iter().any(|sample| sample.function == one.function);
    let mut all = RankSample { complete: true, ..RankSample::default() };
    let one = RankSample {
        functions: rank.functions.iter().map(|sample| since_begin(sample, rank.first_ticks)).collect(),
        untimed: rank.untimed.iter().filter(has).cloned().collect(),
        unseen: rank.unseen.clone(),
        sizes: rank.sizes.clone(),
        group_ticks: rank.group_ticks.clone(),
        unattributed_bytes: rank.unattributed_bytes,
        probe_hits: rank.probe_hits,
        ..RankSample::default()
    };
    fold(&mut all, &one);
    all
}

/// A rank that did not call the function itself says nothing of when that was.
fn since_begin(sample: &FunctionSample, begin_ticks: u64) -> FunctionSample {
    let since = |ticks: u64| ticks.saturating_sub(begin_ticks);
    match (sample.calls, sample.nested) {
        // A call that was under way when the window began is none of it.
        (0, 0) => FunctionSample {
            function: sample.function,
            unknown_bytes: sample.unknown_bytes,
            first_ticks: u64::MAX,
            ..FunctionSample::default()
        },
        (0, _) => FunctionSample { first_ticks: u64::MAX, last_ticks: 0, ..*sample },
        _ => FunctionSample { first_ticks: since(sample.first_ticks), last_ticks: since(sample.last_ticks), ..*sample },
    }
}

/// Takes the sums of other ranks into these.
pub(crate) fn fold(into: &mut RankSample, other: &RankSample) {
    let key = |sample: &FunctionSample| sample.function;
    by_key(&mut into.functions, &other.functions, key, |one, other| {
        one.calls = one.calls.saturating_add(other.calls);
        one.nested = one.nested.saturating_add(other.nested);
        one.polled_on = one.polled_on.saturating_add(other.polled_on);
        one.ticks = one.ticks.saturating_add(other.ticks);
        one.bytes = one.bytes.saturating_add(other.bytes);
        one.unknown_bytes = one.unknown_bytes.saturating_add(other.unknown_bytes);
        one.argument_sum = one.argument_sum.saturating_add(other.argument_sum);
        one.bytes_max = one.bytes_max.max(other.bytes_max);
        one.first_ticks = one.first_ticks.min(other.first_ticks);
        one.last_ticks = one.last_ticks.max(other.last_ticks);
    });
    let untimed_key = |one: &Untimed| (one.function, one.is_out);
    let earlier = |one: &mut Untimed, other: &Untimed| {
        one.out_after_us = one.out_after_us.min(other.out_after_us);
        if other.reason < one.reason {
            one.reason.clone_from(&other.reason);
        }
    };
    by_key(&mut into.untimed, &other.untimed, untimed_key, earlier);
    by_key(&mut into.unseen, &other.unseen, untimed_key, earlier);
    let size_key = |size: &SizeSample| (size.function, size.class, size.is_last);
    by_key(&mut into.sizes, &other.sizes, size_key, |one, other| {
        one.calls = one.calls.saturating_add(other.calls);
        one.bytes = one.bytes.saturating_add(other.bytes);
    });
    let group = |(group, _): &(FunctionGroup, u64)| *group;
    by_key(&mut into.group_ticks, &other.group_ticks, group, |one, other| one.1 = one.1.saturating_add(other.1));
    into.unattributed_bytes = into.unattributed_bytes.saturating_add(other.unattributed_bytes);
    into.probe_hits = into.probe_hits.saturating_add(other.probe_hits);
    into.complete |= other.complete;
}

fn by_key<T: Clone, K: Ord>(into: &mut Vec<T>, other: &[T], key: impl Fn(&T) -> K, merge: impl Fn(&mut T, &T)) {
    let mut all: BTreeMap<K, T> = BTreeMap::new();
    for one in std::mem::take(into).iter().chain(other) {
        all.entry(key(one)).and_modify(|known| merge(known, one)).or_insert_with(|| one.clone());
    }
    *into = all.into_values().collect();
}
