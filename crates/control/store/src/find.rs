//! Short names: how a job gets one, and how what people type is understood.
//!
//! "particle-3" is the third job of the store and ran a program called particle...; "3" alone, or any beginning that fits
//! one job only, means the same. "particle-3/0" is its first window.
//!
//! Next: `store.rs`, whose `find` looks the pieces up.

use crate::{Error, JobSummary};

/// Letters of the program in a job's id, at most: short enough to type.
const STEM_LENGTH_MAX: usize = 12;

/// The job and window that a text like "particle-3/0" stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The job.
    pub job: JobSummary,
    /// The window's number, which exists; `None`: the text named a job only.
    pub window: Option<u32>,
}

/// Splits "JOB" or "JOB/WINDOW".
pub(crate) fn split(text: &str) -> Result<(&str, Option<u32>), Error> {
    match text.split_once('/') {
        None => Ok((text, None)),
        Some((job, window)) => {
            let window = window.parse().map_err(|_| Error::BadWindow { text: text.to_string() })?;
            Ok((job, Some(window)))
        }
    }
}

/// True for a whole id: "particle-3" must not find "particle-31" after job 3 has been deleted.
pub(crate) fn is_whole_id(text: &str) -> bool {
    text.rsplit_once('-').is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The id of job `number` that runs `program`: its file name's letters and digits, and the number.
pub(crate) fn id_of(program: &str, number: i64) -> String {
    // The kernel marks an executable that was replaced while it ran.
    let program = program.strip_suffix(" (deleted)").unwrap_or(program);
    let name = program.rsplit('/').next().unwrap_or(program);
    let letters = name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    let stem: String = letters.take(STEM_LENGTH_MAX).collect::<String>().to_ascii_lowercase();
    let stem = stem.trim_matches(['.', '_']);
    // An id must not be mistaken for a number.
    let stem = if stem.chars().any(|c| c.is_ascii_alphabetic()) { stem } else { "job" };
    format!("{stem}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_typeable() {
        let rows = [
            ("plain", "/opt/app/particle", "particle-3"),
            ("no folder", "hpcc", "hpcc-3"),
            ("long", "/bin/a_very_long_program_name", "a_very_long-3"),
            ("capitals", "./NPmpi", "npmpi-3"),
            ("space and dashes", "/x/my program-v2", "myprogramv2-3"),
            ("script with suffix", "/x/run.sh", "run.sh-3"),
            ("other letters", "/x/Überschall", "berschall-3"),
            ("only other letters", "/x/測定", "job-3"),
            ("only digits", "/x/1234", "job-3"),
            ("empty", "", "job-3"),
            ("deleted", "/x/app (deleted)", "app-3"),
        ];
        for (name, program, expected) in rows {
            assert_eq!(id_of(program, 3), expected, "{name}");
        }
    }

    #[test]
    fn selections_split_at_the_slash() {
        let rows = [
            ("job", "particle-3", Some(("particle-3", None))),
            ("window", "particle-3/12", Some(("particle-3", Some(12)))),
            ("no number", "particle-3/", None),
            ("not a number", "particle-3/last", None),
            ("two slashes", "a/1/2", None),
            ("negative", "a/-1", None),
        ];
        for (name, text, expected) in rows {
            assert_eq!(split(text).ok(), expected, "{name}");
        }
    }
}
