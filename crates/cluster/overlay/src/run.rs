//! Runs, which go up: merged values that name their ranks, of one wave or of many that follow each other.
//!
//! The value of one wave with its ranks is a *unit*. Units of waves that follow each other, and are alike in all else,
//! are one [`Run`] from the leaf that contributes to the root: it is sent, merged and passed on as one, so that a number
//! costs little more than its bytes. It is cut only where waves differ, and where what is long or much must not travel
//! together.
//!
//! Next: `frame`, which carries them, `node::waves`, which merges them.

use crate::limits::{RUN_COUNT_MAX, RUN_VALUE_BYTES_MAX};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Range;
use trimtab_reduce::plain::{Plain, put_bytes, put_number};
use trimtab_reduce::{RankSet, Values, ValuesRef};

/// Merged values on their way up, one for each of some waves. They are true wherever they come from: each is the value of
/// exactly the ranks that are covered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RunForm")]
pub struct Run {
    /// Which life of the controller.
    pub epoch: u32,
    /// On which stream.
    pub stream: u32,
    /// The first wave.
    pub wave: u64,
    /// After how many requests to contribute again.
    pub attempt: u32,
    /// The ranks that contributed.
    pub covers: RankSet,
    /// Their merged values, encoded by the stream's filter.
    #[serde(serialize_with = "write_values")]
    values: Values,
}

/// A run as it lies somewhere, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RunRef<'a> {
    pub(crate) epoch: u32,
    pub(crate) stream: u32,
    pub(crate) wave: u64,
    pub(crate) attempt: u32,
    pub(crate) covers: &'a RankSet,
    pub(crate) values: ValuesRef<'a>,
}

/// Its bytes, before it is known that they are one.
#[derive(Deserialize)]
struct RunForm {
    epoch: u32,
    stream: u32,
    wave: u64,
    attempt: u32,
    covers: RankSet,
    #[serde(deserialize_with = "read_values")]
    values: Values,
}

fn write_values<S: Serializer>(values: &Values, serializer: S) -> Result<S::Ok, S::Error> {
    crate::bytes::serialize(values.bytes(), serializer)
}

fn read_values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Values, D::Error> {
    let bytes = crate::bytes::deserialize(deserializer)?;
    let values = Values::read(bytes, RUN_COUNT_MAX, RUN_VALUE_BYTES_MAX);
    values.ok_or_else(|| D::Error::custom("no values of a run, too many, or too long to be together"))
}

impl TryFrom<RunForm> for Run {
    type Error = &'static str;

    fn try_from(form: RunForm) -> Result<Run, &'static str> {
        let RunForm { epoch, stream, wave, attempt, covers, values } = form;
        if values.is_empty() || wave.checked_add(values.len() as u64).is_none() {
            return Err("values of no waves");
        }
        Ok(Run { epoch, stream, wave, attempt, covers, values })
    }
}

impl From<RunRef<'_>> for Run {
    fn from(run: RunRef<'_>) -> Run {
        let RunRef { epoch, stream, wave, attempt, covers, values } = run;
        Run { epoch, stream, wave, attempt, covers: covers.clone(), values: values.to_values() }
    }
}

impl Run {
    /// A node's own contribution.
    pub(crate) fn own(epoch: u32, stream: u32, wave: u64, covers: RankSet, values: Values) -> Run {
        Run { epoch, stream, wave, attempt: 0, covers, values }
    }

    /// Reads a run as it is encoded; none if it isn't plain, or no run.
    pub(crate) fn read(from: &mut Plain<'_>) -> Option<Run> {
        let (epoch, stream, wave, attempt) = (from.short(), from.short(), from.number(u64::MAX), from.short());
        let covers = RankSet::read(from);
        let values = Values::read(from.bytes().to_vec(), RUN_COUNT_MAX, RUN_VALUE_BYTES_MAX)?;
        Run::try_from(RunForm { epoch, stream, wave, attempt, covers, values }).ok()
    }

    /// Writes it as it is encoded behind some bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let numbers = [u64::from(self.epoch), u64::from(self.stream), self.wave, u64::from(self.attempt)];
        numbers.into_iter().for_each(|number| put_number(number, out));
        self.covers.put(out);
        put_bytes(self.values.bytes(), out);
    }

    /// How many waves it has values of; at least one.
    pub fn unit_count(&self) -> usize {
        self.values.len()
    }

    /// How long its values are, in bytes, with their lengths.
    pub fn value_bytes(&self) -> usize {
        self.values.bytes().len()
    }

    pub(crate) fn view(&self) -> RunRef<'_> {
        let Run { epoch, stream, wave, attempt, ref covers, ref values } = *self;
        RunRef { epoch, stream, wave, attempt, covers, values: values.view() }
    }

    /// Takes in what goes on where this ends; whether it does.
    pub(crate) fn take(&mut self, next: &RunRef<'_>) -> bool {
        let fits = self.view().goes_on_with(next);
        if fits {
            self.values.extend(next.values);
        }
        fits
    }

    /// Splits off what comes after the first `unit_count` units; nothing if there is no more.
    pub(crate) fn split_off(&mut self, unit_count: usize) -> Option<Run> {
        if unit_count == 0 || unit_count >= self.unit_count() {
            return None;
        }
        let values = self.values.split_off(unit_count);
        Some(Run { wave: self.wave + unit_count as u64, covers: self.covers.clone(), values, ..*self })
    }
}

impl<'a> RunRef<'a> {
    pub(crate) fn unit_count(&self) -> usize {
        self.values.len()
    }

    /// Its waves.
    pub(crate) fn waves(&self) -> Range<u64> {
        self.wave..self.wave.saturating_add(self.unit_count() as u64)
    }

    /// Takes the first `unit_count` units off, or all if there are no more.
    pub(crate) fn split_to(&mut self, unit_count: usize) -> RunRef<'a> {
        let first = RunRef { values: self.values.split_to(unit_count), ..*self };
        self.wave = first.waves().end;
        first
    }

    /// The part behind the first `unit_count` units.
    pub(crate) fn behind(mut self, unit_count: usize) -> RunRef<'a> {
        self.split_to(unit_count);
        self
    }

    /// Leaves nothing of it.
    pub(crate) fn drop_all(&mut self) {
        self.split_to(self.unit_count());
    }

    /// The part that is of these waves.
    pub(crate) fn within(mut self, waves: &Range<u64>) -> RunRef<'a> {
        if waves.start <= self.wave && self.waves().end <= waves.end {
            return self;
        }
        let before = waves.start.saturating_sub(self.wave).min(self.unit_count() as u64);
        self = self.behind(before as usize);
        let inside = waves.end.saturating_sub(self.wave).min(self.unit_count() as u64);
        self.split_to(inside as usize)
    }

    /// True if all of it may travel as one.
    pub(crate) fn is_one_piece(&self) -> bool {
        self.values.are_few_and_short(RUN_COUNT_MAX, RUN_VALUE_BYTES_MAX) || self.unit_count() == 1
    }

    /// In pieces of which each may travel as one: short values together, long ones alone.
    pub(crate) fn pieces(self) -> impl Iterator<Item = RunRef<'a>> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let mut piece = RunRef { values: rest.values.split_while(RUN_COUNT_MAX, RUN_VALUE_BYTES_MAX), ..rest };
            if piece.unit_count() == 0 {
                piece.values = rest.values.split_to(1);
            }
            rest.wave = piece.waves().end;
            Some(piece).filter(|piece| piece.unit_count() > 0)
        })
    }

    fn goes_on_with(&self, next: &RunRef<'_>) -> bool {
        self.unit_count() + next.unit_count() <= RUN_COUNT_MAX
            && self.waves().end == next.wave
            && (self.epoch, self.stream, self.attempt) == (next.epoch, next.stream, next.attempt)
            && self.covers == next.covers
            && self.has_company()
            && next.has_company()
    }

    /// True if its values may travel with others; of several it is known.
    fn has_company(&self) -> bool {
        let mut values = self.values;
        self.unit_count() > 1 || values.next().is_some_and(|value| value.len() <= RUN_VALUE_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trimtab_types::Rank;

    fn run(wave: u64, values: &[&[u8]]) -> Run {
        let covers = RankSet::range(Rank(3), Rank(9));
        Run { epoch: 1, stream: 2, wave, attempt: 0, covers, values: values.iter().collect() }
    }

    fn units(run: RunRef<'_>) -> Vec<(u64, Vec<u8>)> {
        run.waves().zip(run.values.map(<[u8]>::to_vec)).collect()
    }

    fn read(run: &Run) -> Result<Run, postcard::Error> {
        postcard::from_bytes(&postcard::to_stdvec(run).unwrap())
    }

    #[test]
    fn what_goes_on_becomes_one_run_and_other_things_do_not() {
        let mut all = run(40, &[b"a"]);
        assert!(all.take(&run(41, &[b"", b"cc"]).view()));
        let long = vec![0; RUN_VALUE_BYTES_MAX + 1];
        for (case, other) in [
            ("gap", run(44, &[b"d"])),
            ("again", run(42, &[b"d"])),
            ("long", run(43, &[&long])),
            ("ranks", Run { covers: RankSet::one(Rank(1)), ..run(43, &[b"d"]) }),
            ("attempt", Run { attempt: 1, ..run(43, &[b"d"]) }),
            ("stream", Run { stream: 1, ..run(43, &[b"d"]) }),
            ("epoch", Run { epoch: 2, ..run(43, &[b"d"]) }),
        ] {
            assert!(!all.take(&other.view()), "{case}");
        }
        assert_eq!(units(all.view()), [(40, b"a".to_vec()), (41, vec![]), (42, b"cc".to_vec())]);
        assert!(!run(0, &[&long]).take(&run(1, &[b"d"]).view()), "a long one stays alone");
    }

    #[test]
    fn a_run_is_bounded() {
        let mut all = run(0, &vec![&b""[..]; RUN_COUNT_MAX]);
        assert_eq!(read(&all), Ok(all.clone()));
        assert!(!all.take(&run(RUN_COUNT_MAX as u64, &[b""]).view()));
        let long = vec![0; RUN_VALUE_BYTES_MAX + 1];
        for (case, of_others) in [
            ("one too many", run(0, &vec![&b""[..]; RUN_COUNT_MAX + 1])),
            ("a long one among others", run(0, &[b"", &long])),
            ("of no wave", run(7, &[])),
            ("behind the last wave", run(u64::MAX, &[b"a"])),
        ] {
            assert!(read(&of_others).is_err(), "{case}");
        }
        assert!(read(&run(u64::MAX - 1, &[b"a"])).is_ok() && read(&run(0, &[&long])).is_ok());
    }

    #[test]
    fn long_values_travel_alone_and_short_ones_together() {
        let long = vec![0; RUN_VALUE_BYTES_MAX + 1];
        let all = run(7, &[b"a", b"b", &long, &long, b"c"]);
        let pieces: Vec<(u64, usize)> = all.view().pieces().map(|piece| (piece.wave, piece.unit_count())).collect();
        assert_eq!(pieces, [(7, 2), (9, 1), (10, 1), (11, 1)]);
    }

    #[test]
    fn a_part_is_what_lies_in_its_waves() {
        let all = run(10, &[b"a", b"b", b"c"]);
        for (waves, expected) in
            [(0..99, 10..13), (11..12, 11..12), (12..99, 12..13), (0..10, 10..10), (13..99, 13..13)]
        {
            assert_eq!(all.view().within(&waves).waves(), expected, "{waves:?}");
        }
    }

    proptest! {
        #[test]
        fn runs_are_cut_and_joined_without_loss(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 1..40),
            cut in 0_usize..50,
        ) {
            let whole = run(7, &values.iter().map(|value| &value[..]).collect::<Vec<_>>());
            prop_assert_eq!(&read(&whole).unwrap(), &whole);
            let (all, mut first) = (units(whole.view()), whole.clone());
            match first.split_off(cut) {
                Some(rest) => {
                    prop_assert_eq!(units(first.view()), &all[..cut]);
                    prop_assert_eq!(units(rest.view()), &all[cut..]);
                    prop_assert!(first.take(&rest.view()));
                }
                None => prop_assert!(cut == 0 || cut >= values.len()),
            }
            prop_assert_eq!(first, whole);
        }

        #[test]
        fn hostile_bytes_give_a_run_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(run) = postcard::from_bytes::<Run>(&bytes) {
                prop_assert!((1..=RUN_COUNT_MAX).contains(&run.unit_count()));
                prop_assert_eq!(units(run.view()).len(), run.unit_count());
            }
        }
    }
}
