//! The filter keeps the laws of the tree, and values come back as they went.

use super::*;
use proptest::prelude::*;
use trimtab_reduce::laws::{check, check_shape};

fn whole(name: &str, counted: Counted) -> Variable {
    Variable { name: name.to_owned(), counted: Some(counted), missing: Vec::new(), at_least: false }
}

fn digits() -> impl Strategy<Value = Digits> {
    let special = prop_oneof![Just(f64::NAN), Just(-0.0), Just(0.0), Just(f64::INFINITY), any::<f64>()];
    prop_oneof![any::<i64>().prop_map(Digits::Int), special.prop_map(|value| Digits::Float(value.to_bits()))]
}

fn single() -> impl Strategy<Value = Single> {
    let value = digits();
    (-1_i64..4, proptest::option::of(0_u64..3), value).prop_map(|(rank, thread, value)| Single { rank, thread, value })
}

fn sorted(mut all: Vec<Single>) -> Counted {
    all.sort_by_key(order);
    Counted::Each(all)
}

fn buckets() -> impl Strategy<Value = Buckets> {
    let counts = proptest::collection::vec(any::<u64>(), 0..BUCKETS_MAX);
    (counts, any::<u64>(), any::<i128>(), any::<i64>(), any::<i64>()).prop_map(|(mut counts, count, sum, min, max)| {
        while counts.last() == Some(&0) {
            counts.pop();
        }
        if count == 0 { Buckets::default() } else { Buckets { counts, count, sum, min, max } }
    })
}

/// One variable of each kind, as every node of a script has them.
fn variables() -> impl Strategy<Value = Vec<Variable>> {
    let real = || prop_oneof![any::<f64>(), Just(1e300), Just(-1e300), Just(1e-300)].prop_map(ExactSum::of);
    let stacks = proptest::collection::btree_map(0_u64..4, any::<u64>(), 0..4);
    let one = (any::<i64>(), real(), proptest::collection::vec(single(), 0..4), proptest::option::of(digits()));
    let two = (proptest::option::of(digits()), real(), any::<u64>(), buckets(), stacks);
    let reasons = proptest::sample::subsequence(vec!["a", "b", "c", "d", "e", "f"], 0..=MISSING_MAX);
    (one, two, reasons, any::<bool>()).prop_map(
        |((sum, real, each, min), (max, mean, count, histogram, stacks), reasons, at_least)| {
            let all = [
                ("sum", Counted::Sum(sum)),
                ("real", Counted::SumReal(real)),
                ("each", sorted(each)),
                ("min", Counted::Min(min, count)),
                ("max", Counted::Max(max, count)),
                ("mean", Counted::Mean(mean, count)),
                ("histogram", Counted::Histogram(histogram)),
                ("stacks", Counted::Stacks(stacks, count)),
            ];
            let mut all: Vec<Variable> = all.into_iter().map(|(name, counted)| whole(name, counted)).collect();
            all[0].at_least = at_least;
            all[0].counted = all[0].counted.take().filter(|_| reasons.is_empty() || at_least);
            all[0].missing = reasons.into_iter().map(str::to_owned).collect();
            all
        },
    )
}

proptest! {
    #[test]
    fn the_laws_hold(
        values in proptest::collection::vec(prop_oneof![9 => variables(), 1 => Just(Vec::new())], 5),
        choices in proptest::collection::vec((0_usize..8, 0_usize..8), 4),
    ) {
        prop_assert_eq!(check(&Values, &values[0], &values[1], &values[2]), Ok(()));
        prop_assert_eq!(check_shape(&Values, &values, &choices), Ok(()));
    }

    #[test]
    fn hostile_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(value) = Values.decode(&bytes) {
            let mut merged = value.clone();
            let _either_way = Values.merge(&mut merged, value);
        }
    }

    #[test]
    fn merged_values_are_no_longer_than_they_were_said_to_be(values in proptest::collection::vec(variables(), 1..9)) {
        let costs = |variables: &Vec<Variable>| {
            variables.iter().map(Variable::costs).fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
        };
        let bytes_max = costs(&values[0]).0 + values.iter().map(|value| costs(value).1).sum::<u64>();
        let mut merged = Values.identity();
        values.into_iter().for_each(|value| Values.merge(&mut merged, value).expect("of one script"));
        prop_assert!(Values.encode(&merged).expect("it has bytes").len() as u64 <= bytes_max);
    }
}

#[test]
fn what_was_counted_comes_back() {
    let own = |rank, value| Own { rank, thread: Some(7), value };
    let histogram = Histogram { buckets: vec![0, 2, 1], count: 3, sum: 5, min: 1, max: 3 };
    for (case, value) in [
        ("sum", Value::Sum { value: Number::Int(-3) }),
        ("real", Value::Sum { value: Number::Float(0.1) }),
        ("each", Value::Each { values: vec![own(0, Number::Int(1)), own(2, Number::Float(2.5))] }),
        ("min", Value::Min { value: Some(Number::Int(4)), count: 9 }),
        ("none", Value::Max { value: None, count: 0 }),
        ("mean", Value::Mean { sum: 2.5, count: 4 }),
        ("histogram", Value::Histogram(histogram)),
        ("stacks", Value::Stacks(Stacks { counts: BTreeMap::from([(5, 6)]), unplaced: 1 })),
    ] {
        let named = Named::whole(case.to_owned(), value);
        let variable = Variable::from(named.clone());
        let bytes = Values.encode(&vec![variable]).expect("it has bytes");
        let back = Values.decode(&bytes).expect("it is one").pop().expect("one");
        assert_eq!(Named::from(back), named, "{case}");
    }
}

#[test]
fn sums_do_not_depend_on_who_merged_first() {
    let of = |value: f64| vec![whole("x", Counted::SumReal(ExactSum::of(value)))];
    let mut sum = of(1e16);
    for value in [1.0, 1.0, -1e16] {
        Values.merge(&mut sum, of(value)).expect("one kind");
    }
    let read = Named::from(sum.pop().expect("one"));
    assert_eq!(read.value, Some(Value::Sum { value: Number::Float(2.0) }), "doubles alone would say 0 or 2");
}

#[test]
fn other_scripts_do_not_merge() {
    let one = |name: &str, counted: Counted| vec![whole(name, counted)];
    let mut into = one("x", Counted::Sum(1));
    for (case, other) in [
        ("another_name", one("y", Counted::Sum(1))),
        ("another_kind", one("x", Counted::Min(None, 0))),
        ("another_number", [one("x", Counted::Sum(1)), one("y", Counted::Sum(1))].concat()),
    ] {
        assert!(Values.merge(&mut into, other).is_err(), "{case}");
        assert_eq!(into, one("x", Counted::Sum(1)), "{case}: unchanged");
    }
}

/// One rank may have what another lacks; the whole then has what there is, and says what it lacks.
#[test]
fn what_ranks_lack_is_told_with_what_others_have() {
    let lacks = |reason: &str| {
        vec![Variable { counted: None, missing: vec![reason.to_owned()], ..whole("n", Counted::Sum(0)) }]
    };
    let mut merged = lacks("b");
    for other in [lacks("a"), vec![whole("n", Counted::Sum(5))], lacks("a"), vec![whole("n", Counted::Sum(2))]] {
        Values.merge(&mut merged, other).expect("of one script");
    }
    let named = Named::from(merged.pop().expect("one"));
    assert_eq!(named.value, Some(Value::Sum { value: Number::Int(7) }));
    assert_eq!(named.missing, ["a", "b"]);
    let none = lacks("a");
    let bytes = Values.encode(&none).expect("it has bytes");
    assert_eq!(Values.decode(&bytes), Ok(none), "nothing is no zero");
    for (case, missing) in [
        ("nothing_without_a_reason", vec![]),
        ("out_of_order", vec!["b".to_owned(), "a".to_owned()]),
        ("twice", vec!["a".to_owned(), "a".to_owned()]),
        ("too_many", (0..=MISSING_MAX).map(|number| number.to_string()).collect()),
        ("too_long", vec!["x".repeat(REASON_BYTES_MAX + 1)]),
    ] {
        assert!(
            Values.check(&vec![Variable { counted: None, missing, ..whole("n", Counted::Sum(0)) }]).is_err(),
            "{case}"
        );
    }
}
