//! Things numbered by waves, of which only those from the oldest open one on are kept.
//!
//! Waves are few at a time, follow each other and end in order: so each lies at its place behind the oldest, and is found
//! without a search.
//!
//! Next: `waves` and `root`, which keep theirs here.

use crate::limits::WAVE_WINDOW_NUMBERS;
use std::collections::VecDeque;

/// What is kept by wave.
#[derive(Debug)]
pub(super) struct Ring<T> {
    /// The wave of the first place.
    first: u64,
    /// The last one is never empty.
    places: VecDeque<Option<T>>,
}

impl<T> Ring<T> {
    /// Nothing yet; waves begin with `first`.
    pub(super) fn new(first: u64) -> Self {
        Ring { first, places: VecDeque::new() }
    }

    fn place(&self, wave: u64) -> Option<usize> {
        wave.checked_sub(self.first).filter(|place| *place < WAVE_WINDOW_NUMBERS).map(|place| place as usize)
    }

    pub(super) fn get(&self, wave: u64) -> Option<&T> {
        self.places.get(self.place(wave)?)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, wave: u64) -> Option<&mut T> {
        let place = self.place(wave)?;
        self.places.get_mut(place)?.as_mut()
    }

    pub(super) fn contains(&self, wave: u64) -> bool {
        self.get(wave).is_some()
    }

    /// Where something of a wave is kept; none for a wave that is over, or further ahead than any window.
    fn make_place(&mut self, wave: u64) -> Option<&mut Option<T>> {
        let place = self.place(wave)?;
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        self.places.get_mut(place)
    }

    /// What a wave has, made if there is nothing; none for a wave that is over or too far ahead.
    pub(super) fn get_or_insert_with(&mut self, wave: u64, make: impl FnOnce() -> T) -> Option<&mut T> {
        self.make_place(wave).map(|place| place.get_or_insert_with(make))
    }

    /// Keeps something for a wave instead of what it had; nothing for one that is over or too far ahead.
    pub(super) fn insert(&mut self, wave: u64, value: T) {
        if let Some(place) = self.make_place(wave) {
            *place = Some(value);
        }
    }

    /// Waves below this one are over. What holds nothing keeps no memory.
    pub(super) fn drop_below(&mut self, below: u64) {
        let over = below.saturating_sub(self.first).min(self.places.len() as u64) as usize;
        self.places.drain(..over);
        self.first = self.first.max(below);
        if self.places.is_empty() {
            self.places = VecDeque::new();
        }
    }

    /// All that is kept, by ascending wave.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(place, kept)| Some((self.first + place as u64, kept.as_ref()?)))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ring: &Ring<char>) -> Vec<(u64, char)> {
        ring.iter().map(|(wave, value)| (wave, *value)).collect()
    }

    #[test]
    fn each_wave_has_its_own_place() {
        let mut ring = Ring::new(10);
        ring.insert(12, 'c');
        assert_eq!(ring.get_or_insert_with(10, || 'a'), Some(&mut 'a'));
        assert_eq!(ring.get_or_insert_with(12, || 'x'), Some(&mut 'c'));
        ring.insert(12, 'd');
        assert_eq!((all(&ring), ring.get(11), ring.contains(12)), (vec![(10, 'a'), (12, 'd')], None, true));
        ring.values_mut().for_each(|value| value.make_ascii_uppercase());
        ring.drop_below(11);
        assert_eq!(all(&ring), [(12, 'D')]);
        ring.drop_below(11 + WAVE_WINDOW_NUMBERS);
        assert_eq!((all(&ring), ring.places.capacity()), (vec![], 0));
    }

    #[test]
    fn what_is_over_or_too_far_ahead_is_not_kept() {
        let mut ring = Ring::new(10);
        for wave in [0, 9, 10 + WAVE_WINDOW_NUMBERS, u64::MAX] {
            ring.insert(wave, 'x');
            assert!(ring.get_or_insert_with(wave, || 'x').is_none() && !ring.contains(wave), "wave {wave}");
        }
        assert_eq!(ring.places.capacity(), 0);
        ring.insert(9 + WAVE_WINDOW_NUMBERS, 'z');
        assert!(ring.contains(9 + WAVE_WINDOW_NUMBERS));
    }
}
