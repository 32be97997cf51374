//! Ranks that are in several loops, each in one of them, counted as one: whether they pass these equally often.
//!
//! Probes do not go in everywhere at the same moment, so ranks in step are apart from the first look on, and stay so. A rank
//! that hands out what others do gets ever further from them.
//!
//! Next: `choose_loop`, which is given no passes of a loop that ranks do not pass equally often.

use super::NEST_SECONDS;

/// Passes by which ranks may come apart or nearer between looks, the part of the passes that they may, and passes from
/// which that tells at once.
const APART_MIN: u64 = 1;
const APART_PART_MAX: f64 = 0.1;
const APART_KNOWN_MIN: u64 = 20;

/// The results of looks at the counters of all ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct InStep {
    /// At the first look: passes of the rank with most, and how far it was ahead of that with fewest.
    first: Option<(u64, u64)>,
    /// Passes since, of the rank with most.
    passes: u64,
    /// The most by which ranks came further apart or nearer since.
    apart: u64,
}

impl InStep {
    /// Notes the passes of the rank with fewest and of that with most.
    pub fn look(&mut self, least: u64, most: u64) {
        let ahead = most.saturating_sub(least);
        let (first, first_ahead) = *self.first.get_or_insert((most, ahead));
        self.passes = most.saturating_sub(first);
        self.apart = self.apart.max(ahead.abs_diff(first_ahead));
    }

    /// True if they are seen to pass it equally often, after so many seconds.
    pub fn is_seen(&self, seconds: f64) -> bool {
        let is_known = self.passes >= APART_KNOWN_MIN || seconds >= NEST_SECONDS;
        is_known && !self.is_contradicted()
    }

    /// True if they do not.
    pub fn is_contradicted(&self) -> bool {
        self.apart > APART_MIN && self.apart as f64 > APART_PART_MAX * self.passes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_step_stay_as_far_apart_as_they_were() {
        type Row = (&'static str, &'static [(u64, u64)], f64, bool);
        let rows: &[Row] = &[
            ("alike", &[(3, 3), (30, 30)], 0.3, true),
            ("one whose probe came later", &[(2, 40), (32, 70), (62, 101)], 0.6, true),
            ("one that hands out", &[(2, 4), (30, 60)], 0.6, false),
            ("too few to tell", &[(3, 3), (8, 8)], 0.5, false),
            ("few and slow", &[(0, 1), (2, 3)], 2.0, true),
            ("slow and apart", &[(0, 0), (2, 5)], 2.0, false),
        ];
        for (name, looks, seconds, expected) in rows {
            let mut seen = InStep::default();
            looks.iter().for_each(|(least, most)| seen.look(*least, *most));
            assert_eq!(seen.is_seen(*seconds), *expected, "{name}: {seen:?}");
        }
    }
}
