//! Things kept by wave, of waves that are alike and follow each other as one.
//!
//! Contributions come as runs and end in order, so nearly always a few long stretches hold all open waves. One is cut
//! where something happens to a part of it.
//!
//! Next: `waves` and `root`, which keep theirs here.

use crate::run::RunRef;
use std::collections::VecDeque;
use std::ops::Range;
use trimtab_reduce::Values;

/// A value that can be cut between two waves.
pub(super) trait Cut {
    /// Cuts off what belongs to the waves from the one with this index on.
    fn split_off(&mut self, index: usize) -> Self;
}

impl Cut for Values {
    fn split_off(&mut self, index: usize) -> Self {
        Values::split_off(self, index)
    }
}

/// Waves that follow each other, and what they have.
#[derive(Debug)]
pub(super) struct Stretch<T> {
    pub(super) waves: Range<u64>,
    pub(super) of: T,
}

impl<T> Stretch<T> {
    pub(super) fn wave_count(&self) -> usize {
        (self.waves.end - self.waves.start) as usize
    }
}

/// The values that are kept: by ascending wave, none twice, with or without gaps.
#[derive(Debug)]
pub(super) struct Stretches<T> {
    all: VecDeque<Stretch<T>>,
}

impl<T> Default for Stretches<T> {
    fn default() -> Self {
        Stretches { all: VecDeque::new() }
    }
}

impl<T: Cut> Stretches<T> {
    /// Where the first stretch is that ends behind a wave.
    fn index(&self, wave: u64) -> usize {
        self.all.partition_point(|stretch| stretch.waves.end <= wave)
    }

    /// The stretch with a wave.
    pub(super) fn get(&self, wave: u64) -> Option<&Stretch<T>> {
        self.all.get(self.index(wave)).filter(|stretch| stretch.waves.start <= wave)
    }

    /// The stretch with a wave.
    pub(super) fn get_mut(&mut self, wave: u64) -> Option<&mut Stretch<T>> {
        let index = self.index(wave);
        self.all.get_mut(index).filter(|stretch| stretch.waves.start <= wave)
    }

    /// The first of these waves that is kept.
    pub(super) fn first_in(&self, waves: &Range<u64>) -> Option<u64> {
        let stretch = self.all.get(self.index(waves.start))?;
        Some(stretch.waves.start.max(waves.start)).filter(|wave| *wave < waves.end)
    }

    /// If the first of some waves is kept, and how many of them are like it.
    pub(super) fn alike(&self, waves: &Range<u64>) -> (bool, Range<u64>) {
        let (is_kept, end) = match self.all.get(self.index(waves.start)) {
            Some(stretch) if stretch.waves.start <= waves.start => (true, stretch.waves.end),
            Some(next) => (false, next.waves.start),
            None => (false, u64::MAX),
        };
        (is_kept, waves.start..waves.end.min(end))
    }

    /// Makes a stretch begin with a wave, if any has it and the one before; where that is, or what comes behind.
    pub(super) fn cut(&mut self, wave: u64) -> usize {
        let index = self.index(wave);
        match self.all.get_mut(index) {
            Some(stretch) if stretch.waves.start < wave => {
                let of = stretch.of.split_off((wave - stretch.waves.start) as usize);
                let waves = wave..std::mem::replace(&mut stretch.waves.end, wave);
                self.all.insert(index + 1, Stretch { waves, of });
                index + 1
            }
            _ => index,
        }
    }

    /// A stretch that begins with the first of some waves and ends with one of them: what is there, or made.
    pub(super) fn place(&mut self, waves: Range<u64>, make: impl FnOnce(usize) -> T) -> &mut Stretch<T> {
        let index = self.cut(waves.start);
        match self.all.get(index).map(|next| next.waves.start) {
            Some(there) if there == waves.start => {
                self.cut(waves.end);
            }
            behind => {
                let end = behind.unwrap_or(u64::MAX).min(waves.end);
                let of = make((end - waves.start) as usize);
                self.all.insert(index, Stretch { waves: waves.start..end, of });
            }
        }
        &mut self.all[index]
    }

    /// Keeps something for some waves instead of what they had.
    pub(super) fn insert(&mut self, waves: Range<u64>, of: T) {
        let (first, behind) = (self.cut(waves.start), self.cut(waves.end));
        self.all.drain(first..behind);
        self.all.insert(first, Stretch { waves, of });
    }

    /// Waves below this one are over. A stretch that holds nothing keeps no memory.
    pub(super) fn drop_below(&mut self, below: u64) {
        let over = self.cut(below);
        self.all.drain(..over);
        if self.all.is_empty() {
            self.all = VecDeque::new();
        }
    }

    /// Cuts at both ends of some waves; the first waves of the stretches between.
    pub(super) fn cut_out(&mut self, waves: &Range<u64>) -> Vec<u64> {
        let (first, behind) = (self.cut(waves.start), self.cut(waves.end));
        self.all.range(first..behind).map(|stretch| stretch.waves.start).collect()
    }

    /// The value with this index of a run that was merged into a stretch is bad: those before it, which are in, are given
    /// back and have a stretch of their own; those behind it are what is left of the run.
    pub(super) fn leave_out<'a>(&mut self, index: usize, whole: RunRef<'a>, left: &mut RunRef<'a>) -> RunRef<'a> {
        self.cut(whole.wave + index as u64);
        *left = whole.behind(index + 1);
        let mut rest = whole;
        rest.split_to(index)
    }

    /// Those that have some of these waves.
    pub(super) fn within(&self, waves: &Range<u64>) -> impl Iterator<Item = &Stretch<T>> {
        self.all.iter().skip(self.index(waves.start)).take_while(|stretch| stretch.waves.start < waves.end)
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Stretch<T>> {
        self.all.back_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stretch<T>> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stretch<T>> {
        self.all.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Cut for Vec<u64> {
        fn split_off(&mut self, index: usize) -> Self {
            Vec::split_off(self, index)
        }
    }

    /// Each wave with what it has, by way of what each stretch has.
    fn all(stretches: &Stretches<Vec<u64>>) -> BTreeMap<u64, u64> {
        let mut each = BTreeMap::new();
        let mut before = 0;
        for Stretch { waves, of } in stretches.iter() {
            assert!(before <= waves.start && waves.start < waves.end, "{stretches:?}");
            assert_eq!(of.len() as u64, waves.end - waves.start);
            before = waves.end;
            each.extend(waves.clone().zip(of.iter().copied()));
        }
        each
    }

    proptest! {
        /// As a map from waves would, whatever happens in whatever order.
        #[test]
        fn stretches_are_a_map_from_waves(
            steps in proptest::collection::vec((0_u8..4, 0_u64..60, 1_u64..20, any::<u64>()), 1..40),
        ) {
            let (mut ours, mut map, mut below) = (Stretches::default(), BTreeMap::new(), 0);
            for (what, wave, count, value) in steps {
                let waves = wave.max(below)..wave.max(below) + count;
                prop_assert_eq!(ours.first_in(&waves), map.range(waves.clone()).next().map(|(wave, _)| *wave));
                let within: Vec<u64> = ours.within(&waves).flat_map(|stretch| stretch.waves.clone()).collect();
                let known: Vec<u64> = map.range(waves.clone()).map(|(wave, _)| *wave).collect();
                prop_assert_eq!(within.into_iter().filter(|wave| waves.contains(wave)).collect::<Vec<_>>(), known);
                let (is_kept, alike) = ours.alike(&waves);
                prop_assert!(alike.clone().all(|wave| map.contains_key(&wave) == is_kept));
                prop_assert!(alike.end == waves.end || map.contains_key(&alike.end) || is_kept);
                match what {
                    0 => {
                        let stretch = ours.place(waves.clone(), |count| vec![value; count]);
                        prop_assert!(stretch.waves.start == waves.start && stretch.waves.end <= waves.end);
                        let placed = stretch.waves.clone();
                        map.extend(placed.filter(|wave| !map.contains_key(wave)).map(|wave| (wave, value)).collect::<Vec<_>>());
                    }
                    1 => {
                        ours.insert(waves.clone(), vec![value; count as usize]);
                        map.extend(waves.map(|wave| (wave, value)));
                    }
                    2 => {
                        let firsts = ours.cut_out(&waves);
                        prop_assert!(firsts.iter().all(|wave| waves.contains(wave) && ours.get(*wave).is_some()));
                        prop_assert_eq!(firsts.first().copied(), ours.first_in(&waves));
                    }
                    _ => {
                        below = below.max(wave / 2);
                        ours.drop_below(below);
                        map.retain(|wave, _| *wave >= below);
                    }
                }
                prop_assert_eq!(&all(&ours), &map);
                for wave in 0..80 {
                    prop_assert_eq!(ours.get(wave).is_some(), map.contains_key(&wave));
                    prop_assert_eq!(ours.get_mut(wave).is_some(), map.contains_key(&wave));
                }
            }
            ours.drop_below(u64::MAX);
            prop_assert_eq!(ours.all.capacity(), 0);
        }
    }
}
