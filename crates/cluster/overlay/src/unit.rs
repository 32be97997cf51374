//! What goes up: merged values that name their ranks, one by one or many in a run.
//!
//! Numbers come as fast as a leaf has them, and a frame, a queue's place and an allocation for each would cost many times
//! what the number does. So units of waves that follow each other, and are alike in all else, lie behind each other in one
//! [`Run`] from the leaf's queue to the next merge, and are looked at in place.
//!
//! Next: `frame`, which carries them, `node::waves`, which merges them.

use crate::limits::{RUN_COUNT_MAX, RUN_VALUE_BYTES_MAX};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use trimtab_reduce::RankSet;

/// A merged value on its way up. It is true wherever it comes from: the value of exactly the ranks it covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Which life of the controller.
    pub reign: u32,
    /// On which stream.
    pub stream: u32,
    /// Of which wave.
    pub wave: u64,
    /// After how many requests to contribute again.
    pub attempt: u32,
    /// Whose contributions.
    pub covers: RankSet,
    /// Their merged value, encoded by the stream's filter.
    #[serde(with = "crate::bytes")]
    pub value: Vec<u8>,
}

/// A unit as it lies in a run, or before it is in one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnitRef<'a> {
    pub(crate) reign: u32,
    pub(crate) stream: u32,
    pub(crate) wave: u64,
    pub(crate) attempt: u32,
    pub(crate) covers: &'a RankSet,
    pub(crate) value: Cow<'a, [u8]>,
}

/// One unit, or short ones of waves that follow each other and are alike in all else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    first: Unit,
    rest: Rest,
}

/// The values behind the first, each behind a byte that says how long it is.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rest {
    count: usize,
    bytes: Vec<u8>,
}

impl From<Unit> for Run {
    fn from(first: Unit) -> Run {
        Run { first, rest: Rest::default() }
    }
}

impl From<UnitRef<'_>> for Run {
    fn from(unit: UnitRef<'_>) -> Run {
        let UnitRef { reign, stream, wave, attempt, covers, value } = unit;
        Unit { reign, stream, wave, attempt, covers: covers.clone(), value: value.into_owned() }.into()
    }
}

impl Run {
    /// How many units it has; at least one.
    pub fn unit_count(&self) -> usize {
        1 + self.rest.count
    }

    /// How long its values are, in bytes.
    pub fn value_bytes(&self) -> usize {
        self.first.value.len() + self.rest.bytes.len() - self.rest.count
    }

    /// Its units. One behind the last possible wave, which only a hostile node sends, is none.
    pub(crate) fn units(&self) -> impl Iterator<Item = UnitRef<'_>> {
        let Unit { reign, stream, wave: first, attempt, ref covers, ref value } = self.first;
        let values = std::iter::once(&value[..]).chain(self.rest.values());
        let waves = (0..).map_while(move |index| first.checked_add(index));
        waves.zip(values).map(move |(wave, value)| UnitRef {
            reign,
            stream,
            wave,
            attempt,
            covers,
            value: Cow::Borrowed(value),
        })
    }

    /// Takes in a unit that goes on where this ends; whether it does.
    pub(crate) fn take(&mut self, unit: &UnitRef<'_>) -> bool {
        let fits = unit.value.len() <= RUN_VALUE_BYTES_MAX
            && self.goes_on_with((unit.reign, unit.stream, unit.wave, unit.attempt), unit.covers, 1);
        if fits {
            self.rest.push(&unit.value);
        }
        fits
    }

    /// Takes in a whole run that goes on where this ends; otherwise it comes back.
    pub(crate) fn absorb(&mut self, next: Run) -> Option<Run> {
        let Unit { reign, stream, wave, attempt, ref covers, ref value } = next.first;
        let fits = value.len() <= RUN_VALUE_BYTES_MAX
            && self.goes_on_with((reign, stream, wave, attempt), covers, next.unit_count());
        if !fits {
            return Some(next);
        }
        self.rest.push(value);
        self.rest.bytes.extend_from_slice(&next.rest.bytes);
        self.rest.count += next.rest.count;
        None
    }

    fn goes_on_with(&self, of: (u32, u32, u64, u32), covers: &RankSet, unit_count: usize) -> bool {
        let own = &self.first;
        self.unit_count() + unit_count <= RUN_COUNT_MAX
            && own.value.len() <= RUN_VALUE_BYTES_MAX
            && own.wave.checked_add(self.unit_count() as u64) == Some(of.2)
            && (own.reign, own.stream, own.attempt) == (of.0, of.1, of.3)
            && own.covers == *covers
    }

    /// Splits off what comes after the first `unit_count` units; nothing if there is no more.
    pub(crate) fn split_off(&mut self, unit_count: usize) -> Option<Run> {
        let kept = unit_count.checked_sub(1).filter(|kept| *kept < self.rest.count)?;
        let at: usize = self.rest.values().take(kept).map(|value| 1 + value.len()).sum();
        let bytes = self.rest.bytes.split_off(at);
        let (length, rest) = bytes.split_first()?;
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        let wave = self.first.wave.saturating_add(unit_count as u64);
        let first = Unit { wave, covers: self.first.covers.clone(), value: value.to_vec(), ..self.first };
        let count = self.rest.count - unit_count;
        self.rest.count = kept;
        Some(Run { first, rest: Rest { count, bytes: rest.to_vec() } })
    }
}

impl Rest {
    /// From bytes of another node, if they are what this makes.
    fn read(bytes: Vec<u8>) -> Option<Rest> {
        let (mut count, mut left) = (0, &bytes[..]);
        while let Some((length, behind)) = left.split_first() {
            if usize::from(*length) > RUN_VALUE_BYTES_MAX || count + 1 >= RUN_COUNT_MAX {
                return None;
            }
            left = behind.get(usize::from(*length)..)?;
            count += 1;
        }
        Some(Rest { count, bytes })
    }

    fn push(&mut self, value: &[u8]) {
        self.bytes.push(value.len() as u8);
        self.bytes.extend_from_slice(value);
        self.count += 1;
    }

    fn values(&self) -> impl Iterator<Item = &[u8]> {
        let mut left = &self.bytes[..];
        std::iter::from_fn(move || {
            let (length, behind) = left.split_first()?;
            let (value, behind) = behind.split_at_checked(usize::from(*length))?;
            left = behind;
            Some(value)
        })
    }
}

impl Serialize for Rest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        crate::bytes::serialize(&self.bytes, serializer)
    }
}

impl<'de> Deserialize<'de> for Rest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = crate::bytes::deserialize(deserializer)?;
        Rest::read(bytes).ok_or_else(|| D::Error::custom("values of a run that are too long or too many"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trimtab_types::Rank;

    fn covers() -> RankSet {
        RankSet::range(Rank(3), Rank(9))
    }

    fn unit(wave: u64, value: &[u8]) -> Unit {
        Unit { reign: 1, stream: 2, wave, attempt: 0, covers: covers(), value: value.to_vec() }
    }

    fn unit_ref<'a>(covers: &'a RankSet, wave: u64, value: &'a [u8]) -> UnitRef<'a> {
        UnitRef { reign: 1, stream: 2, wave, attempt: 0, covers, value: Cow::Borrowed(value) }
    }

    fn waves(run: &Run) -> Vec<(u64, Vec<u8>)> {
        run.units().map(|unit| (unit.wave, unit.value.into_owned())).collect()
    }

    #[test]
    fn units_that_follow_each_other_become_a_run_and_others_do_not() {
        let (covers, others) = (covers(), RankSet::one(Rank(1)));
        let mut run = Run::from(unit(40, b"a"));
        assert!(run.take(&unit_ref(&covers, 41, b"")) && run.take(&unit_ref(&covers, 42, b"cc")));
        let long = vec![0; RUN_VALUE_BYTES_MAX + 1];
        for (case, other) in [
            ("gap", unit_ref(&covers, 44, b"d")),
            ("again", unit_ref(&covers, 42, b"d")),
            ("long", unit_ref(&covers, 43, &long)),
            ("ranks", unit_ref(&others, 43, b"d")),
            ("attempt", UnitRef { attempt: 1, ..unit_ref(&covers, 43, b"d") }),
            ("stream", UnitRef { stream: 1, ..unit_ref(&covers, 43, b"d") }),
            ("reign", UnitRef { reign: 2, ..unit_ref(&covers, 43, b"d") }),
        ] {
            assert!(!run.take(&other), "{case}");
        }
        assert_eq!(waves(&run), [(40, b"a".to_vec()), (41, vec![]), (42, b"cc".to_vec())]);
        assert_eq!((run.unit_count(), run.value_bytes()), (3, 3));
        assert!(!Run::from(unit(0, &long)).take(&unit_ref(&covers, 1, b"d")), "a long one stays alone");
    }

    #[test]
    fn a_run_is_bounded() {
        let covers = covers();
        let mut run = Run::from(unit(0, b""));
        let taken = (1..2 * RUN_COUNT_MAX as u64).filter(|wave| run.take(&unit_ref(&covers, *wave, b""))).count();
        assert_eq!((taken, run.unit_count()), (RUN_COUNT_MAX - 1, RUN_COUNT_MAX));
        let last = Run::from(unit(RUN_COUNT_MAX as u64, b""));
        assert_eq!(run.absorb(last.clone()), Some(last));
        run.rest.push(b"");
        let bytes = postcard::to_stdvec(&run).unwrap();
        assert!(postcard::from_bytes::<Run>(&bytes).is_err(), "one too many from another node");
        assert_eq!(Rest::read(vec![1]), None, "a value that is cut off");
        assert_eq!(Rest::read([&[RUN_VALUE_BYTES_MAX as u8 + 1][..], &[0; 99]].concat()), None, "one that is too long");
    }

    #[test]
    fn waves_end_with_their_numbers() {
        let mut run = Run::from(unit(u64::MAX, b"a"));
        assert!(!run.take(&unit_ref(&covers(), 0, b"b")));
        run.rest.push(b"b");
        assert_eq!(waves(&run), [(u64::MAX, b"a".to_vec())]);
    }

    proptest! {
        #[test]
        fn runs_are_cut_and_joined_without_loss(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 1..40),
            cut in 0_usize..50,
        ) {
            let covers = covers();
            let mut run = Run::from(unit(7, &values[0]));
            for (index, value) in values.iter().enumerate().skip(1) {
                prop_assert!(run.take(&unit_ref(&covers, 7 + index as u64, value)));
            }
            let whole = run.clone();
            let all: Vec<(u64, Vec<u8>)> = (7..).zip(values.clone()).collect();
            prop_assert_eq!(waves(&run), &all[..]);
            prop_assert_eq!(&postcard::from_bytes::<Run>(&postcard::to_stdvec(&run).unwrap()).unwrap(), &whole);
            if let Some(rest) = run.split_off(cut) {
                prop_assert_eq!(waves(&run), &all[..cut]);
                prop_assert_eq!(waves(&rest), &all[cut..]);
                prop_assert_eq!((run.unit_count(), rest.unit_count()), (cut, all.len() - cut));
                prop_assert_eq!(run.absorb(rest), None);
            } else {
                prop_assert!(cut == 0 || cut >= values.len());
            }
            prop_assert_eq!(run, whole);
        }

        #[test]
        fn hostile_bytes_give_a_run_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(run) = postcard::from_bytes::<Run>(&bytes) {
                prop_assert!(run.units().count() <= run.unit_count() && run.unit_count() <= RUN_COUNT_MAX);
            }
        }
    }
}
