//! Results of threads and ranks merge in any order, and say what the values were.
//!
//! Next: `language` for how values come about.

use proptest::prelude::*;
use trimtab_snippet::arithmetic::Number;
use trimtab_snippet::ir::{Area, Body, Expression, Kind, Statement, Unit, Variable, When, thread_word};
use trimtab_snippet::reference::{Machine, run};
use trimtab_snippet::resolve::words;
use trimtab_snippet::values::{Named, Own, RankAreas, Value, collect, merge};

const KINDS: &[Kind] = &[
    Kind::Sum,
    Kind::SumFloat,
    Kind::Last,
    Kind::LastFloat,
    Kind::Min,
    Kind::MinFloat,
    Kind::Max,
    Kind::MaxFloat,
    Kind::Mean,
    Kind::Histogram,
];

fn unit(kind: Kind, area: Area) -> Unit {
    let offset = 128;
    let variable = Variable { name: "v".into(), area, offset, kind };
    let bytes = offset + 8 * words(kind);
    Unit { bodies: Vec::new(), variables: vec![variable], texts: Vec::new(), thread_bytes: bytes, process_bytes: bytes }
}

/// The result of one thread that saw these values, of which rank and thread are `who`.
fn result(kind: Kind, who: u64, seen: &[i64]) -> Value {
    let unit = unit(kind, Area::Thread);
    let mut machine = Machine::new(&unit);
    machine.set_word(Area::Thread, thread_word::THREAD, who);
    for value in seen {
        let float = matches!(kind, Kind::SumFloat | Kind::LastFloat | Kind::MinFloat | Kind::MaxFloat | Kind::Mean);
        let value = if float { Expression::Float(*value as f64) } else { Expression::Int(*value) };
        let statement = match kind {
            Kind::Sum | Kind::SumFloat => Statement::Add { variable: 0, value },
            _ => Statement::Fold { variable: 0, value },
        };
        let body = Body { probe: 0, when: When::Entry, statements: vec![statement], cost_max: 1 };
        run(&unit, &body, &mut machine).expect("well formed");
    }
    one(collect(&unit, &[RankAreas { rank: who as i64 % 3, process: &[], threads: &[&machine.thread] }]))
}

fn one(results: Vec<Named>) -> Value {
    assert_eq!(results.len(), 1);
    results.into_iter().next().expect("one").value.expect("nothing is missing")
}

fn both(a: Value, b: Value) -> Value {
    merge(a, b).expect("of one kind")
}

/// Small whole numbers, whose sums are exact also as floats.
fn seen() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(-1_000_000..1_000_000_i64, 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merging_is_associative_and_commutative(kind in prop::sample::select(KINDS), a in seen(), b in seen(), c in seen()) {
        let [a, b, c] = [(1, a), (2, b), (3, c)].map(|(who, values)| result(kind, who, &values));
        prop_assert_eq!(both(a.clone(), b.clone()), both(b.clone(), a.clone()));
        prop_assert_eq!(both(both(a.clone(), b.clone()), c.clone()), both(a, both(b, c)));
    }

    #[test]
    fn threads_merge_to_what_one_thread_would_have_seen(kind in prop::sample::select(KINDS), a in seen(), b in seen()) {
        prop_assume!(!matches!(kind, Kind::Last | Kind::LastFloat));
        let together = [a.clone(), b.clone()].concat();
        prop_assert_eq!(both(result(kind, 1, &a), result(kind, 2, &b)), result(kind, 1, &together));
    }

    #[test]
    fn stacks_merge_in_any_order(hashes in prop::collection::vec(prop::collection::vec(1..50_u64, 0..30), 3)) {
        let [a, b, c] = [0, 1, 2].map(|index| {
            let mut words = vec![0_u64; words(Kind::Stacks) as usize];
            for (pair, hash) in hashes[index].iter().enumerate() {
                words[2 * pair..2 * pair + 2].copy_from_slice(&[*hash, pair as u64]);
            }
            let last = words.len() - 1;
            words[last] = index as u64;
            Value::Stacks(trimtab_snippet::values::Stacks::read(&words))
        });
        prop_assert_eq!(both(a.clone(), b.clone()), both(b.clone(), a.clone()));
        let all = both(both(a.clone(), b.clone()), c.clone());
        prop_assert_eq!(&all, &both(a, both(b, c)));
        let Value::Stacks(all) = all else { unreachable!("stacks stay stacks") };
        prop_assert_eq!(all.unplaced, 3);
    }

    #[test]
    fn percentiles_are_within_their_bucket(mut seen in prop::collection::vec(0..1_000_000_i64, 1..200), share in 0.0..1.0_f64) {
        let Value::Histogram(histogram) = result(Kind::Histogram, 1, &seen) else { panic!("no histogram") };
        seen.sort_unstable();
        let index = ((share * seen.len() as f64).ceil() as usize).clamp(1, seen.len()) - 1;
        let (truth, estimate) = (seen[index] as f64, histogram.percentile(share).expect("values"));
        prop_assert!(estimate >= seen[0] as f64 && estimate <= seen[seen.len() - 1] as f64);
        prop_assert!(estimate <= 2.0 * truth + 1.0 && estimate >= truth / 2.0 - 1.0, "{estimate} for {truth}");
        let mean = seen.iter().sum::<i64>() as f64 / seen.len() as f64;
        prop_assert!((histogram.mean().expect("values") - mean).abs() < 1e-6);
    }
}

#[test]
fn percentiles_of_plain_cases() {
    let histogram = |seen: &[i64]| match result(Kind::Histogram, 1, seen) {
        Value::Histogram(histogram) => histogram,
        other => panic!("{other:?}"),
    };
    assert_eq!(histogram(&[]).percentile(0.5), None);
    assert_eq!(histogram(&[7; 100]).percentile(0.99), Some(7.0));
    let mixed = histogram(&[[10; 90].as_slice(), &[1000; 10]].concat());
    assert!((8.0..=16.0).contains(&mixed.percentile(0.5).expect("values")));
    assert!((512.0..=1000.0).contains(&mixed.percentile(0.99).expect("values")));
    assert_eq!(histogram(&[-5, -5]).percentile(0.5), Some(-5.0));
    let extremes = histogram(&[i64::MIN, i64::MAX]);
    assert_eq!((extremes.min, extremes.max, extremes.buckets.len()), (i64::MIN, i64::MAX, 64));
}

#[test]
fn values_of_threads_and_processes_are_shown_apart() {
    let thread = unit(Kind::Last, Area::Thread);
    let area = |who: u64, value: u64| {
        let mut words = vec![0_u64; 17];
        words[thread_word::THREAD as usize / 8] = who;
        words[16] = value;
        words
    };
    let areas = [area(70, 1), area(71, 2), area(80, 3)];
    let first: Vec<&[u64]> = vec![&areas[1], &areas[0]];
    let second: Vec<&[u64]> = vec![&areas[2]];
    let ranks = [
        RankAreas { rank: 1, process: &areas[0], threads: &second },
        RankAreas { rank: 0, process: &areas[1], threads: &first },
    ];
    let own = |rank, thread, value| Own { rank, thread, value: Number::Int(value) };
    let expected = vec![own(0, Some(70), 1), own(0, Some(71), 2), own(1, Some(80), 3)];
    assert_eq!(one(collect(&thread, &ranks)), Value::Each { values: expected });
    let process = unit(Kind::Last, Area::Process);
    let expected = vec![own(0, None, 2), own(1, None, 1)];
    assert_eq!(one(collect(&process, &ranks)), Value::Each { values: expected });
}

#[test]
fn what_is_no_number_does_not_hide_the_smallest() {
    let unit = unit(Kind::MinFloat, Area::Thread);
    let mut machine = Machine::new(&unit);
    for value in [f64::NAN, 3.0, f64::NAN, 2.0] {
        let statements = vec![Statement::Fold { variable: 0, value: Expression::Float(value) }];
        run(&unit, &Body { probe: 0, when: When::Entry, statements, cost_max: 1 }, &mut machine).expect("well formed");
    }
    let value = one(collect(&unit, &[RankAreas { rank: 0, process: &[], threads: &[&machine.thread] }]));
    assert_eq!(value, Value::Min { value: Some(Number::Float(2.0)), count: 4 });
    let nan = Value::Min { value: Some(Number::Float(f64::NAN)), count: 1 };
    assert_eq!(merge(nan, value), Some(Value::Min { value: Some(Number::Float(2.0)), count: 5 }));
}

#[test]
fn results_survive_json() {
    for kind in KINDS {
        let value = result(*kind, 4, &[1, 5, 3]);
        let text = serde_json::to_string(&value).expect("plain");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("its own"), value, "{text}");
    }
}

#[test]
fn short_areas_have_no_result() {
    let unit = unit(Kind::Histogram, Area::Thread);
    assert!(collect(&unit, &[RankAreas { rank: 0, process: &[], threads: &[&[0; 20]] }]).is_empty());
    assert_eq!(merge(Value::Sum { value: Number::Int(1) }, Value::Each { values: Vec::new() }), None);
}

/// A program may write anything over what its probes counted.
#[test]
fn whatever_the_words_are_there_is_a_result() {
    for kind in KINDS.iter().copied().chain([Kind::Stacks]) {
        let unit = unit(kind, Area::Thread);
        let areas = [0, 1].map(|rank| RankAreas { rank, process: &[], threads: &[] });
        assert!(collect(&unit, &areas).is_empty(), "{kind:?}");
        let full: Vec<u64> = std::iter::repeat_n(u64::MAX, unit.thread_bytes as usize / 8).collect();
        let threads = [&full[..], &full[..]];
        let areas = [0, 1].map(|rank| RankAreas { rank, process: &[], threads: &threads });
        let results = collect(&unit, &areas);
        assert_eq!(results.len(), 1, "{kind:?}");
        if let Some(Value::Histogram(histogram)) = &results[0].value {
            assert!(histogram.percentile(0.5).is_some() && histogram.mean().is_some());
        }
    }
}
