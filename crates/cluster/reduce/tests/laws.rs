//! Every built-in filter keeps the laws, and so does one that a user might write; one that doesn't is caught.
//!
//! Next: `src/laws.rs` for the laws.

use proptest::prelude::*;
use std::sync::Arc;
use trimtab_reduce::lists::Concat;
use trimtab_reduce::{AnyFilter, Bad, Filter, FilterSpec, Registry, laws};
use trimtab_types::Rank;

const CONCAT: Concat = Concat { byte_count_max: 24 };

/// Five values of five different ranks, and a way to merge them.
type Choices = Vec<(usize, usize)>;

fn choices() -> impl Strategy<Value = Choices> {
    proptest::collection::vec((0_usize..8, 0_usize..8), 4)
}

fn hold<F: Filter>(filter: &F, values: &[F::Value], choices: &Choices) -> Result<(), TestCaseError> {
    let lawful = laws::check(filter, &values[0], &values[1], &values[2]);
    prop_assert!(lawful.is_ok(), "{}: {}", filter.name(), lawful.unwrap_err());
    let lawful = laws::check_shape(filter, values, choices);
    prop_assert!(lawful.is_ok(), "{}: {}", filter.name(), lawful.unwrap_err());
    Ok(())
}

/// A filter that a user might add: the range of values, as bits seen.
#[derive(Clone)]
struct SeenBits;

impl Filter for SeenBits {
    type Value = u64;

    fn name(&self) -> &'static str {
        "seen bits"
    }

    fn identity(&self) -> u64 {
        0
    }

    fn merge(&self, into: &mut u64, other: u64) -> Result<(), Bad> {
        *into |= other;
        Ok(())
    }
}

/// A mistake that a user might make: a mean of means.
struct MeanOfMeans;

impl Filter for MeanOfMeans {
    type Value = Option<f64>;

    fn name(&self) -> &'static str {
        "mean of means"
    }

    fn identity(&self) -> Option<f64> {
        None
    }

    fn merge(&self, into: &mut Option<f64>, other: Option<f64>) -> Result<(), Bad> {
        *into = match (*into, other) {
            (Some(one), Some(two)) => Some((one + two) / 2.0),
            (one, two) => one.or(two),
        };
        Ok(())
    }
}

proptest! {
    #[test]
    fn filters_of_users(values in proptest::collection::vec(any::<u64>(), 5), choices in choices()) {
        hold(&SeenBits, &values, &choices)?;
    }

    #[test]
    fn lists(values in proptest::collection::vec(proptest::collection::vec(0_u8..3, 0..7), 5), choices in choices()) {
        let ranked = || (0_u32..).map(Rank).zip(&values);
        hold(&CONCAT, &ranked().map(|(rank, value)| CONCAT.of(value, rank)).collect::<Vec<_>>(), &choices)?;
    }

    #[test]
    fn hostile_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for filter in [Arc::new(SeenBits) as Arc<dyn AnyFilter>, Arc::new(Concat { byte_count_max: 30 })] {
            let mut all = filter.start(1);
            let before = all.bytes().unwrap();
            if all.add(0, &bytes).is_err() {
                prop_assert_eq!(all.bytes().unwrap(), before);
            }
        }
        let _ = postcard::from_bytes::<FilterSpec>(&bytes).map(|spec| Registry::default().build(&spec).is_ok());
    }
}

#[test]
fn a_mean_of_means_is_caught() {
    let broken = laws::check(&MeanOfMeans, &Some(1.0), &Some(2.0), &Some(6.0));
    assert!(matches!(broken, Err(laws::Broken::Associativity { .. })), "{broken:?}");
}

#[test]
fn a_users_filter_is_found_by_name() {
    let mut registry = Registry::default();
    registry.register(SeenBits);
    let spec = |name: &str| FilterSpec::Own(name.into());
    let mut all = registry.build(&spec("seen bits")).unwrap().start(1);
    for value in [1_u64, 4] {
        all.add(0, &SeenBits.encode(&value).unwrap()).unwrap();
    }
    assert_eq!(SeenBits.decode(&all.bytes().unwrap()), Ok(5));
    assert_eq!(registry.build(&spec("other")).err(), Some(Bad::Unknown { name: "other".into() }));
}
