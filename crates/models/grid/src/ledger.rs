//! The figures on which answers rest, each noted once, however often it is used.
//!
//! An interval comes from moving each of them to both ends by itself, so that a figure that several steps use moves them together.
//!
//! Next: `build`, which notes; `outlook`, which moves.

use crate::quantity::Quantity;
use std::collections::BTreeMap;

/// A noted figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Note {
    /// Its name in sentences.
    pub words: String,
    /// Its value.
    pub quantity: Quantity,
    /// Its age, seconds; `None`: it has none, as models, or was given without.
    pub age_s: Option<f64>,
    /// A sentence about its interval.
    pub caution: Option<String>,
}

/// All figures.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    notes: Vec<Note>,
    places: BTreeMap<String, usize>,
}

impl Ledger {
    /// Notes a figure; its place. Two with the same words and the same `more` are one.
    pub fn note(&mut self, note: Note, more: &str) -> usize {
        let key = format!("{} {more}", note.words);
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        self.places.insert(key, self.notes.len());
        self.notes.push(note);
        self.notes.len() - 1
    }

    /// The note at a place.
    pub fn at(&self, place: usize) -> &Note {
        &self.notes[place]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.notes.len()
    }

    /// All expected values.
    pub fn middle(&self) -> Vec<f64> {
        self.notes.iter().map(|note| note.quantity.value).collect()
    }
}
