//! The past that can be asked: runs of programs, and forecasts of their ends beside what came.
//!
//! [`History`] is kept in the store's file, or in memory; both pass the same tests. A run is updated by every window
//! of it that is stored, and outlives their reports.
//!
//! Next: `kept` for the file, `memory` for the twin.

use crate::Error;
use crate::hidden::hash;
use crate::pressures::{KeptPressure, Pressured};
use crate::routines::{KnownHost, RoutineModel, SizeForecast};
use crate::series::{SeriesName, SeriesValue};
use trimtab_types::report::{Neighbour, NeighbourKind, Report};

/// Companions kept of a run, at most.
const COMPANIONS_MAX: usize = 64;

/// Another job, or a user's processes, on the nodes of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Companion {
    /// A job or a user.
    pub kind: NeighbourKind,
    /// Slurm's id, the launcher's pid, or the user's name.
    pub name: String,
    /// Short name of its busiest process.
    pub program: String,
}

/// The time in which a run ended: it was seen to run at the first, and to have ended at the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunEnd {
    /// Seconds since 1970.
    pub after_unix_s: f64,
    /// Seconds since 1970; equal where the very end is known.
    pub before_unix_s: f64,
}

impl RunEnd {
    /// The end if it is known to within a share of the whole run.
    pub fn within(&self, share: f64, run_s: f64) -> Option<f64> {
        let width_s = self.before_unix_s - self.after_unix_s;
        (width_s <= share * run_s).then_some(0.5 * (self.before_unix_s + self.after_unix_s))
    }
}

/// One run of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Names it among all, as the job's key does.
    pub key: String,
    /// The short name of its job.
    pub job: String,
    /// Its user, in a site's store.
    pub owner: Option<u32>,
    /// Path of the executable.
    pub program: String,
    /// Its build id; `None`: it has none.
    pub build: Option<String>,
    /// SHA-256 of its arguments.
    pub arguments_hash: String,
    /// Ranks in `MPI_COMM_WORLD`.
    pub ranks: u32,
    /// Hosts.
    pub hosts: Vec<String>,
    /// Others on these, in any window.
    pub companions: Vec<Companion>,
    /// Iterations of its main loop that were done at the end of the newest window.
    pub iterations_done: Option<u64>,
    /// All iterations of that loop.
    pub iterations_total: Option<u64>,
    /// The same at most.
    pub iterations_at_most: Option<u64>,
    /// Its start, seconds since 1970.
    pub started_unix_s: Option<f64>,
    /// When it was last seen to run; `None`: by no window that knows its time.
    pub seen_unix_s: Option<f64>,
    /// When it ended; `None`: it was not seen to.
    pub ended: Option<RunEnd>,
}

impl Run {
    /// The run of a window.
    pub fn of_window(key: &str, owner: Option<u32>, report: &Report) -> Run {
        let (job, window) = (&report.job, &report.window);
        let progress = window.progress.as_ref();
        let neighbours = report.nodes.iter().flat_map(|node| &node.neighbours);
        let companion =
            |one: &Neighbour| Companion { kind: one.kind, name: one.name.clone(), program: one.program.clone() };
        Run {
            key: key.to_owned(),
            job: job.id.clone(),
            owner,
            program: job.program.clone(),
            build: build_of(&job.program, &job.builds),
            arguments_hash: hash(&job.arguments),
            ranks: job.ranks,
            hosts: job.hosts.clone(),
            companions: neighbours.map(companion).collect(),
            iterations_done: progress.and_then(|progress| progress.done),
            iterations_total: progress.and_then(|progress| progress.total),
            iterations_at_most: progress.and_then(|progress| progress.total_at_most),
            started_unix_s: job.started_unix_s,
            seen_unix_s: window.started_unix_s.map(|started| started + window.duration_s),
            ended: None,
        }
    }

    /// The run as it is known after a later sighting.
    pub(crate) fn then(self, later: Run) -> Run {
        let mut companions: Vec<Companion> = self.companions.into_iter().chain(later.companions).collect();
        companions.sort();
        companions.dedup();
        companions.truncate(COMPANIONS_MAX);
        Run {
            companions,
            owner: later.owner.or(self.owner),
            started_unix_s: later.started_unix_s.or(self.started_unix_s),
            seen_unix_s: latest(later.seen_unix_s, self.seen_unix_s),
            // A window that sees it run again knows better than a look that missed it.
            ended: later.ended,
            ..later
        }
    }

    /// The program, arguments and ranks that make runs alike; `None`: without a build id no two runs are.
    pub fn likeness(&self) -> Option<Likeness> {
        let build = self.build.clone()?;
        Some(Likeness { build, arguments_hash: self.arguments_hash.clone(), ranks: self.ranks, owner: self.owner })
    }

    /// How long it took, seconds, if that is known to within a share of it.
    pub fn lasted_s(&self, share: f64) -> Option<f64> {
        let (started, ended) = (self.started_unix_s?, self.ended?);
        let end = ended.within(share, ended.after_unix_s - started)?;
        Some(end - started).filter(|lasted| *lasted > 0.0)
    }
}

/// Runs that are alike: the same program by its build id, the same arguments, as many ranks, of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// Build id of the program.
    pub build: String,
    /// SHA-256 of the arguments.
    pub arguments_hash: String,
    /// Ranks.
    pub ranks: u32,
    /// The user, in a site's store.
    pub owner: Option<u32>,
}

impl From<Likeness> for Pressured {
    fn from(likeness: Likeness) -> Self {
        Pressured { build: likeness.build, arguments_hash: likeness.arguments_hash, ranks: likeness.ranks }
    }
}

/// The end of a run, as it was forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
    /// How, in a word.
    pub method: String,
    /// The run's age then, seconds.
    pub elapsed_s: f64,
    /// Iterations done then.
    pub iterations_done: Option<u64>,
    /// Iterations to come then.
    pub iterations_remaining: Option<u64>,
    /// The expected end, or that of a loop that goes through all passes it may; `None`: neither was said.
    pub end_unix_s: Option<f64>,
    /// 90% of ends were to lie between this
    pub lower_unix_s: f64,
    /// and this,
    pub upper_unix_s: f64,
    /// and 99% before this.
    pub late_unix_s: f64,
    /// How it was derived, in sentences.
    pub because: Vec<String>,
}

/// A forecast, and the run that it was made of, with its end if that was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct ForecastOfRun {
    /// Its number in the history, from 1.
    pub number: u64,
    /// The forecast.
    pub forecast: Forecast,
    /// The run as it is known now.
    pub run: Run,
}

/// The past that can be asked.
pub trait History {
    /// Adds a run, or what a later sighting says of it.
    ///
    /// # Errors
    /// Those of writing.
    fn note_run(&mut self, run: &Run) -> Result<(), Error>;

    /// The run of this key.
    ///
    /// # Errors
    /// Those of reading.
    fn run(&self, key: &str) -> Result<Option<Run>, Error>;

    /// Runs that are alike, the latest first, so many at most.
    ///
    /// # Errors
    /// Those of reading.
    fn runs_alike(&self, likeness: &Likeness, count_max: u32) -> Result<Vec<Run>, Error>;

    /// The same of all users.
    ///
    /// # Errors
    /// Those of reading.
    fn runs_alike_of_all(&self, likeness: &Likeness, count_max: u32) -> Result<Vec<Run>, Error>;

    /// Runs that were not seen to end, the latest first.
    ///
    /// # Errors
    /// Those of reading.
    fn open_runs(&self) -> Result<Vec<Run>, Error>;

    /// Notes that a run was seen to run.
    ///
    /// # Errors
    /// [`Error::NoRun`], and those of writing.
    fn note_seen(&mut self, key: &str, at_unix_s: f64) -> Result<(), Error>;

    /// Notes that a run has ended.
    ///
    /// # Errors
    /// [`Error::NoRun`], and those of writing.
    fn note_end(&mut self, key: &str, end: RunEnd) -> Result<(), Error>;

    /// Keeps a forecast of a run's end; its number.
    ///
    /// # Errors
    /// [`Error::NoRun`], and those of writing.
    fn note_forecast(&mut self, key: &str, forecast: &Forecast) -> Result<u64, Error>;

    /// All forecasts, in the order in which they were made.
    ///
    /// # Errors
    /// Those of reading.
    fn forecasts(&self) -> Result<Vec<ForecastOfRun>, Error>;

    /// Keeps a model of a routine, in the place of that of the same name and kind of host.
    ///
    /// # Errors
    /// Those of writing.
    fn note_model(&mut self, model: &RoutineModel) -> Result<(), Error>;

    /// All models by name, those of one name the newest first.
    ///
    /// # Errors
    /// Those of reading.
    fn models(&self) -> Result<Vec<RoutineModel>, Error>;

    /// Keeps what is known of a host.
    ///
    /// # Errors
    /// Those of writing.
    fn note_host(&mut self, host: &KnownHost) -> Result<(), Error>;

    /// All hosts by name.
    ///
    /// # Errors
    /// Those of reading.
    fn hosts(&self) -> Result<Vec<KnownHost>, Error>;

    /// Keeps a forecast of time or memory.
    ///
    /// # Errors
    /// Those of writing.
    fn note_size_forecast(&mut self, forecast: &SizeForecast) -> Result<(), Error>;

    /// All of these, in the order in which they were made.
    ///
    /// # Errors
    /// Those of reading.
    fn size_forecasts(&self) -> Result<Vec<SizeForecast>, Error>;

    /// Keeps an answer to pressure, in the place of the earlier one of the same program on the same host.
    ///
    /// # Errors
    /// Those of writing.
    fn note_pressure(&mut self, pressure: &KeptPressure) -> Result<(), Error>;

    /// The answer of this program on this host.
    ///
    /// # Errors
    /// Those of reading.
    fn pressure(&self, host: &str, of: &Pressured) -> Result<Option<KeptPressure>, Error>;

    /// Adds values to series, all or none. A series that is new is made. The oldest values go when there are too many
    /// ([`crate::SERIES_VALUES_MAX`], [`crate::SERIES_AGE_MAX_S`]); of two at the same time the later one counts.
    ///
    /// # Errors
    /// [`Error::NoNumber`], [`Error::ClockBack`], and those of writing; then nothing is stored.
    fn note_values(&mut self, values: &[(SeriesName, SeriesValue)]) -> Result<(), Error>;

    /// The newest values of a series, the oldest of them first; none of a series that there isn't.
    ///
    /// # Errors
    /// Those of reading.
    fn values(&self, series: &SeriesName, count_max: u32) -> Result<Vec<SeriesValue>, Error>;

    /// The names of all series, in order.
    ///
    /// # Errors
    /// Those of reading.
    fn series(&self) -> Result<Vec<SeriesName>, Error>;
}

/// The later of two moments, or the one that is known.
pub(crate) fn latest(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

/// The build id of a program among "path build-id".
fn build_of(program: &str, builds: &[String]) -> Option<String> {
    let of_program = |line: &String| {
        let (path, build) = line.rsplit_once(' ')?;
        (path == program && !build.is_empty() && build.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| build.to_owned())
    };
    builds.iter().find_map(of_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_s_own_build_counts() {
        let builds = ["/lib/libmpi.so 99ff".to_owned(), "/opt/my app 0123abcd".to_owned()];
        assert_eq!(build_of("/opt/my app", &builds).as_deref(), Some("0123abcd"));
        assert_eq!(build_of("/opt/other", &builds), None);
        assert_eq!(build_of("/opt/x", &["/opt/x ".to_owned()]), None, "a program without a build id");
    }

    #[test]
    fn an_end_counts_if_it_is_known_well_enough() {
        let end = RunEnd { after_unix_s: 1000.0, before_unix_s: 1010.0 };
        assert_eq!((end.within(0.1, 100.0), end.within(0.05, 100.0)), (Some(1005.0), None));
    }
}
