//! Readings of counters to what they counted in a window.
//!
//! A counter is read from outside, now and then, so somewhat beside the window's borders: what it counted lies between the
//! readings inside of them and those around them. Of the thread that iterates there may also be notes, made by the kernel in
//! the very moment of a mark, which are exact; and notes of when it entered and left calls of MPI, which tell its own work from
//! what it does while it waits. Where several events share a counter of the processor, each is counted for a part of the
//! time: it is scaled, and then only what was really counted is a bound.
//!
//! Next: `explain`, which decides by instructions; `trimtab-measure`'s `counters`, which reads.

use serde::{Deserialize, Serialize};
use trimtab_types::report::Counter;

/// A count whose bounds are further apart than this share of the upper one is no number.
const DOUBT_SHARE_MAX: f64 = 0.5;
/// Unless they are no further apart than so many.
const DOUBT_MIN: u64 = 10;

/// Why there is no number of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NoCount {
    #[error("it was not read on both sides of the window")]
    OneSide,
    #[error("other events had the processor's counters all the time; ask for fewer at a time")]
    Starved,
    #[error("it was read beside the window's borders, so it is between {least} and {most}; a longer window says more")]
    Vague { least: u64, most: u64 },
}

/// Why it is not known what a counter counted outside of calls of MPI, or in the very moment of a mark.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoNotes {
    /// The rank has more threads than can be watched.
    #[error("the rank has more than {most} threads")]
    ManyThreads {
        /// So many can.
        most: usize,
    },
    /// The kernel refused.
    #[error("marks can't be noted by the processor's debug registers: {reason}")]
    Refused {
        /// The system's words.
        reason: String,
    },
    /// The notes did not keep up.
    #[error("marks came faster than they could be noted")]
    TooFast,
    /// Marks were noted and calls not.
    #[error("calls of MPI could not be noted")]
    NoCalls,
    /// Notes would hold up the program.
    #[error(
        "iterations are so short that a reading in each ({reading_us:.1} us) would take {:.0}% of the time",
        share * 100.0
    )]
    TooDear {
        /// One reading, microseconds.
        reading_us: f64,
        /// Its share of an iteration.
        share: f64,
    },
    /// More than one thread made marks.
    #[error("several threads iterate")]
    SeveralThreads,
    /// There are no marks.
    #[error("the window is by time")]
    ByTime,
    /// No iteration was noted from end to end.
    #[error("no iteration was seen with all of its calls of MPI: it was too short, or had too many")]
    NoIteration,
}

/// A reading of one counter of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawCount {
    /// As far as it was counted.
    pub value: u64,
    /// Nanoseconds for which it was to be counted.
    pub enabled_ns: u64,
    /// Nanoseconds for which it was.
    pub running_ns: u64,
}

/// A reading of one counter of all threads, from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterLook {
    /// Clock before the first was read.
    pub begun_ticks: u64,
    /// Clock after the last was read.
    pub ended_ticks: u64,
    /// Of each thread, in one order.
    pub threads: Vec<RawCount>,
}

/// The moment of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoteMoment {
    /// A mark: an iteration ends and the next one begins.
    Mark,
    /// An outermost call of MPI is entered.
    Enter,
    /// It is left.
    Leave,
}

/// One reading of a counter of the iterating thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterNote {
    /// Which moment.
    pub moment: NoteMoment,
    /// The counter.
    pub count: RawCount,
}

/// All readings of one counter on one rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterReadings {
    /// From outside, in order.
    pub looks: Vec<CounterLook>,
    /// The thread whose notes these are, by its place in the looks.
    pub noted_thread: usize,
    /// In order.
    pub notes: Vec<CounterNote>,
    /// Why there are no notes, or not of every mark; `None`: there should be.
    pub notes_missing: Option<NoNotes>,
    /// Threads were started meanwhile, which belong to those that started them.
    pub has_new_threads: bool,
}

/// The borders of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Borders {
    /// Its beginning.
    pub first_ticks: u64,
    /// Its end.
    pub last_ticks: u64,
    /// Marks in it, the first and the last included; 0: by time.
    pub marks: usize,
}

/// The count between two readings.
#[derive(Clone, Copy, Debug, Default)]
struct Grown {
    raw: u64,
    scaled: f64,
    enabled_ns: u64,
    running_ns: u64,
}

impl Grown {
    fn between(before: &RawCount, after: &RawCount) -> Grown {
        let raw = after.value.saturating_sub(before.value);
        let enabled_ns = after.enabled_ns.saturating_sub(before.enabled_ns);
        let running_ns = after.running_ns.saturating_sub(before.running_ns);
        let factor = if running_ns > 0 { enabled_ns as f64 / running_ns as f64 } else { 1.0 };
        Grown { raw, scaled: raw as f64 * factor, enabled_ns, running_ns }
    }

    fn plus(self, other: Grown) -> Grown {
        Grown {
            raw: self.raw + other.raw,
            scaled: self.scaled + other.scaled,
            enabled_ns: self.enabled_ns + other.enabled_ns,
            running_ns: self.running_ns + other.running_ns,
        }
    }

    /// It was counted all the time.
    fn is_whole(&self) -> bool {
        self.running_ns >= self.enabled_ns
    }

    /// It was never counted while it was to be.
    fn is_starved(&self) -> bool {
        self.running_ns == 0 && self.enabled_ns > 0
    }
}

/// A number and its bounds.
#[derive(Clone, Copy, Debug, Default)]
struct Bounded {
    value: f64,
    at_least: u64,
    at_most: Option<u64>,
    grown: Grown,
}

/// The count of a counter in a window.
pub fn count(readings: &CounterReadings, borders: Borders) -> Counter {
    let exact = exact(readings, borders).filter(|_| !readings.has_new_threads);
    let is_noted = |thread: usize| exact.is_some() && thread == readings.noted_thread;
    let threads = readings.looks.first().map_or(0, |look| look.threads.len());
    let others: Vec<usize> = (0..threads).filter(|thread| !is_noted(*thread)).collect();
    let beside = match beside(&readings.looks, &others, borders) {
        Ok(beside) => beside,
        Err(reason) => return Counter { missing: Some(reason.to_string()), ..outside(readings, borders) },
    };
    let all = exact.map_or(beside, |exact| Bounded {
        value: beside.value + exact.scaled,
        at_least: beside.at_least + exact.raw,
        at_most: beside.at_most.filter(|_| exact.is_whole()).map(|most| most + exact.raw),
        grown: beside.grown.plus(exact),
    });
    told(all, outside(readings, borders), borders)
}

fn told(all: Bounded, counter: Counter, borders: Borders) -> Counter {
    let (at_least, at_most) = (Some(all.at_least), all.at_most);
    if all.grown.is_starved() {
        return Counter { missing: Some(NoCount::Starved.to_string()), ..counter };
    }
    let doubt = |most: u64| most.saturating_sub(all.at_least);
    let is_vague = |most: &u64| doubt(*most) > DOUBT_MIN && doubt(*most) as f64 > DOUBT_SHARE_MAX * *most as f64;
    if let Some(most) = all.at_most.filter(is_vague) {
        let missing = NoCount::Vague { least: all.at_least, most };
        return Counter { missing: Some(missing.to_string()), at_least, at_most, ..counter };
    }
    let value = (all.value.round() as u64).max(all.at_least).min(all.at_most.unwrap_or(u64::MAX));
    let scaled = match all.grown {
        grown if grown.running_ns > 0 => Some(grown.enabled_ns as f64 / grown.running_ns as f64),
        _ => Some(1.0),
    };
    let iterations = borders.marks.saturating_sub(1);
    let per_iteration = (iterations > 0).then(|| value as f64 / iterations as f64);
    Counter { value: Some(value), at_least, at_most, per_iteration, scaled, ..counter }
}

/// From the first mark to the last, where each has its note.
fn exact(readings: &CounterReadings, borders: Borders) -> Option<Grown> {
    let marks: Vec<&CounterNote> = readings.notes.iter().filter(|note| note.moment == NoteMoment::Mark).collect();
    let is_whole = readings.notes_missing.is_none() && marks.len() == borders.marks && marks.len() >= 2;
    let (first, last) = (marks.first()?, marks.last()?);
    let grown = Grown::between(&first.count, &last.count);
    (is_whole && !grown.is_starved()).then_some(grown)
}

/// From readings inside of the borders, around them, and on the straight line between.
fn beside(looks: &[CounterLook], threads: &[usize], borders: Borders) -> Result<Bounded, NoCount> {
    if threads.is_empty() {
        return Ok(Bounded { at_most: Some(0), ..Bounded::default() });
    }
    let (first, last) = (borders.first_ticks, borders.last_ticks);
    let before = looks.iter().rev().find(|look| look.ended_ticks <= first);
    let after = looks.iter().find(|look| look.begun_ticks >= last);
    let (Some(before), Some(after)) = (before, after) else {
        return Err(NoCount::OneSide);
    };
    let begun = looks.iter().find(|look| look.begun_ticks >= first);
    let ended = looks.iter().rev().find(|look| look.ended_ticks <= last);
    let within = begun.zip(ended).filter(|(begun, ended)| begun.ended_ticks <= ended.begun_ticks);
    let between = |a: &CounterLook, b: &CounterLook| {
        let grown = |thread: &usize| Some(Grown::between(a.threads.get(*thread)?, b.threads.get(*thread)?));
        threads.iter().filter_map(grown).fold(Grown::default(), Grown::plus)
    };
    let around = between(before, after);
    let at = |ticks: u64| {
        let lower = looks.iter().rev().find(|look| middle(look) <= ticks).unwrap_or(before);
        let upper = looks.iter().find(|look| middle(look) > ticks).unwrap_or(after);
        let (from, to) = (middle(lower), middle(upper));
        let part = if to > from { ticks.saturating_sub(from) as f64 / (to - from) as f64 } else { 0.0 };
        between(before, lower).scaled + part.min(1.0) * between(lower, upper).scaled
    };
    Ok(Bounded {
        value: at(last) - at(first),
        at_least: within.map_or(0, |(begun, ended)| between(begun, ended).raw),
        at_most: around.is_whole().then_some(around.raw),
        grown: around,
    })
}

fn middle(look: &CounterLook) -> u64 {
    look.begun_ticks / 2 + look.ended_ticks / 2
}

/// The part of an iteration that lies outside of calls of MPI, of iterations all of whose calls were noted.
fn outside(readings: &CounterReadings, borders: Borders) -> Counter {
    let missing = |why: NoNotes| Counter { outside_missing: Some(why.to_string()), ..Counter::default() };
    if borders.marks < 2 {
        return missing(NoNotes::ByTime);
    }
    if let Some(why) = &readings.notes_missing {
        return missing(why.clone());
    }
    let parts = outside_parts(&readings.notes);
    match parts.len() {
        0 => missing(NoNotes::NoIteration),
        count => Counter {
            outside_communication: Some(parts.iter().sum::<f64>() / count as f64),
            outside_iterations: count as u64,
            ..Counter::default()
        },
    }
}

fn outside_parts(notes: &[CounterNote]) -> Vec<f64> {
    let of = |moment: NoteMoment| notes.iter().rposition(|note| note.moment == moment);
    // Behind the last of one kind nobody knows what was not noted any more.
    let until = of(NoteMoment::Enter).min(of(NoteMoment::Leave)).unwrap_or(0);
    let mut parts = Vec::new();
    let mut iteration: Option<f64> = None;
    let (mut is_inside, mut latest) = (None, RawCount::default());
    for note in &notes[..until] {
        let grown = Grown::between(&latest, &note.count).scaled;
        latest = note.count;
        // Two entries or two exits in a row: something between them was not noted.
        if (note.moment == NoteMoment::Enter && is_inside == Some(true))
            || (note.moment == NoteMoment::Leave && is_inside == Some(false))
        {
            (iteration, is_inside) = (None, Some(note.moment == NoteMoment::Enter));
            continue;
        }
        if is_inside == Some(false) {
            iteration = iteration.map(|outside| outside + grown);
        }
        match note.moment {
            NoteMoment::Enter => is_inside = Some(true),
            NoteMoment::Leave => is_inside = Some(false),
            NoteMoment::Mark => {
                parts.extend(iteration);
                iteration = is_inside.map(|_| 0.0);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: u64) -> RawCount {
        RawCount { value, enabled_ns: value, running_ns: value }
    }

    fn look(ticks: u64, threads: &[u64]) -> CounterLook {
        CounterLook {
            begun_ticks: ticks,
            ended_ticks: ticks + 2,
            threads: threads.iter().map(|value| raw(*value)).collect(),
        }
    }

    fn notes(text: &str) -> Vec<CounterNote> {
        let note = |word: &str| {
            let moment = match word.as_bytes()[0] {
                b'M' => NoteMoment::Mark,
                b'E' => NoteMoment::Enter,
                _ => NoteMoment::Leave,
            };
            CounterNote { moment, count: raw(word[1..].parse().expect("a number")) }
        };
        text.split_whitespace().map(note).collect()
    }

    const WINDOW: Borders = Borders { first_ticks: 1000, last_ticks: 2000, marks: 3 };

    #[test]
    fn readings_beside_the_borders_bound_what_lies_between() {
        let looks = vec![look(900, &[0, 0]), look(1098, &[200, 10]), look(1900, &[1000, 10]), look(2100, &[1200, 10])];
        let found = count(&CounterReadings { looks, ..CounterReadings::default() }, WINDOW);
        assert_eq!((found.at_least, found.at_most), (Some(800), Some(1210)), "{found:?}");
        let value = found.value.expect("a value");
        assert!((1000..=1010).contains(&value), "{found:?}");
        assert_eq!(found.per_iteration, Some(value as f64 / 2.0));
        assert_eq!(found.scaled, Some(1.0));
    }

    #[test]
    fn a_window_without_a_reading_inside_or_outside_has_no_number() {
        let vague = vec![look(0, &[0]), look(3000, &[3000])];
        let found = count(&CounterReadings { looks: vague, ..CounterReadings::default() }, WINDOW);
        assert_eq!((found.value, found.at_least, found.at_most), (None, Some(0), Some(3000)));
        assert!(found.missing.expect("a reason").contains("between 0 and 3000"));
        let one_sided = vec![look(1100, &[0]), look(3000, &[3000])];
        let found = count(&CounterReadings { looks: one_sided, ..CounterReadings::default() }, WINDOW);
        assert!(found.value.is_none() && found.missing.expect("a reason").contains("both sides"));
        // Nothing happened however long one looked: that is a number.
        let idle = vec![look(0, &[7]), look(3000, &[7])];
        let found = count(&CounterReadings { looks: idle, ..CounterReadings::default() }, WINDOW);
        assert_eq!(found.value, Some(0), "{found:?}");
    }

    #[test]
    fn a_note_at_each_mark_is_exact_and_other_threads_are_added() {
        let looks = vec![look(0, &[0, 0]), look(1100, &[900, 50]), look(1900, &[1000, 58]), look(3000, &[9000, 60])];
        let readings = CounterReadings { looks, notes: notes("M100 M150 M205"), ..CounterReadings::default() };
        let found = count(&readings, WINDOW);
        assert_eq!((found.at_least, found.at_most), (Some(113), Some(165)), "{found:?}");
        // A mark without a note, or threads that count with the one that started them: from outside again.
        for readings in [
            CounterReadings { notes: notes("M100 M205"), ..readings.clone() },
            CounterReadings { has_new_threads: true, ..readings.clone() },
            CounterReadings { notes_missing: Some(NoNotes::TooFast), ..readings.clone() },
        ] {
            assert_eq!(count(&readings, WINDOW).at_most, Some(9060), "{readings:?}");
        }
    }

    #[test]
    fn what_was_counted_for_a_part_of_the_time_is_scaled_and_has_no_upper_bound() {
        let part = |ticks: u64, value: u64, enabled_ns: u64, running_ns: u64| CounterLook {
            begun_ticks: ticks,
            ended_ticks: ticks,
            threads: vec![RawCount { value, enabled_ns, running_ns }],
        };
        let looks = vec![part(1000, 0, 0, 0), part(2000, 300, 1000, 250)];
        let found = count(&CounterReadings { looks, ..CounterReadings::default() }, WINDOW);
        assert_eq!(
            (found.value, found.scaled, found.at_least, found.at_most),
            (Some(1200), Some(4.0), Some(300), None)
        );
        let never = vec![part(1000, 0, 0, 0), part(2000, 0, 1000, 0)];
        let found = count(&CounterReadings { looks: never, ..CounterReadings::default() }, WINDOW);
        assert_eq!(found.value, None);
        assert!(found.missing.expect("a reason").contains("ask for fewer"));
    }

    #[test]
    fn work_outside_of_calls_is_told_from_waiting_inside() {
        for (name, text, parts) in [
            ("marks inside of a call", "E0 M1 L50 E60 L80 E90 M91 L150 E170 M171 L180 E190", vec![20.0, 20.0]),
            ("marks between calls", "E0 L5 M10 E20 L70 M75 E90 L91 M95 E99 L100 M101", vec![15.0, 19.0]),
            ("an exit is missing", "E0 L5 M10 E20 E30 L40 M50 E60 L70 M80 E85 L86", vec![20.0]),
            ("not from its beginning", "M0 E5 L8 M10 E20 L30 M40 E50 L60", vec![20.0]),
            ("the notes end", "E0 L5 M10 E20 L30 M40 E45 M90 M100", vec![]),
            ("no calls", "M1 M2 M3", vec![]),
        ] {
            assert_eq!(outside_parts(&notes(text)), parts, "{name}");
        }
        let looks = vec![look(0, &[0]), look(3000, &[200])];
        let readings = CounterReadings {
            looks,
            notes: notes("E0 M1 L50 E60 L80 E90 M91 L150 E170 M171 L180 E190"),
            ..CounterReadings::default()
        };
        let found = count(&readings, WINDOW);
        assert_eq!((found.value, found.outside_communication, found.outside_iterations), (Some(170), Some(20.0), 2));
    }
}
