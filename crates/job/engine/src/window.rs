//! One window of a job that was found: measured, restored, kept.
//!
//! Next: `far` for jobs on many nodes; `trimtab-measure` for how a window goes.

use crate::Engine;
use crate::audited::{Audited, Changed};
use crate::ends::Ends;
use crate::error::Error;
use crate::event::{Event, Told};
use crate::found::elsewhere;
use crate::launch::{Program, measure_when_ready, when_ready};
use crate::nodes::{Filed, Filing};
use crate::store::KnownJob;
use std::time::Duration;
use trimtab_measure::{DETAIL_RANKS_MAX, FirstCall, Length, Mark, Options, Outcome};
use trimtab_measure::{chosen, dry_run, measure, measure_from_first_call};
use trimtab_mpi::Group;
use trimtab_session::{Plan, Refused};
use trimtab_track::{Job, RankProcess};
use trimtab_types::context::Context;
use trimtab_types::report::Report;
use trimtab_types::{BoxError, Pid, Rank};

/// How long ranks may take to appear on nodes whose agents are there.
pub const RANKS_WAIT: Duration = Duration::from_secs(20);

/// A window as it is wanted.
#[derive(Clone, Debug)]
pub struct Window {
    /// How to measure.
    pub options: Options,
    /// The job may have just begun: what can't be done yet is tried again for a while.
    pub just_begun: bool,
    /// How long ranks may take to appear on other nodes.
    pub ranks_wait: Duration,
    /// Agents on other nodes hold ranks from their first look on, as long as the options say.
    pub agents_hold: bool,
}

/// The options of a window unless others are asked for: the main loop, the calls of MPI, as many iterations as fill a fifth
/// of a second, within a minute. `trigger` is the command that asks.
pub fn usual_options(trigger: &str) -> Options {
    Options {
        length: Length::AtLeast(0.2),
        first_call_s: None,
        start: None,
        max_seconds: 60.0,
        mark: Mark::Auto,
        known_loop: None,
        groups: vec![Group::Comm],
        functions: Vec::new(),
        loops: Vec::new(),
        arguments: Vec::new(),
        wrappers: Vec::new(),
        detail: 0,
        follow: false,
        until_confident: None,
        max_cost: None,
        max_hits: None,
        counters: Vec::new(),
        assumed: None,
        trigger: trigger.to_owned(),
        event: None,
        patient: false,
        ranks: Context::All,
        seccomp_ok: false,
        detail_ranks_max: DETAIL_RANKS_MAX,
        command_ns: trimtab_os::monotonic_ns(),
    }
}

impl Window {
    /// Of a job that runs.
    pub fn new(options: Options) -> Self {
        Window { options, just_begun: false, ranks_wait: RANKS_WAIT, agents_hold: false }
    }
}

/// The plan for one rank.
#[derive(Clone, Debug)]
pub struct PlannedRank {
    /// The rank.
    pub rank: Rank,
    /// Its process.
    pub pid: Pid,
    /// The writes, in words.
    pub plan: String,
    /// Functions that are left out, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A window that was measured; every rank is restored.
pub struct Measured {
    /// Its report.
    pub report: Report,
    /// The report's first sentences.
    pub headline: String,
    /// Why the store does not keep it, if there is one.
    pub kept: Result<(), Error>,
    /// Processes that ended so that trimtab may have harmed them: the window is not valid then.
    pub ends: Ends,
    key: String,
    filing: Option<Box<dyn Filing>>,
}

impl Measured {
    /// Has the site keep the report, if its agents measured: where it is there, or why it is not.
    pub fn file(&mut self) -> Option<Result<Filed, BoxError>> {
        Some(self.filing.take()?.file(&self.key, &self.report))
    }
}

/// A window that is not kept yet.
pub(crate) struct Fresh {
    pub outcome: Outcome,
    pub known: KnownJob,
    pub filing: Option<Box<dyn Filing>>,
    pub ends: Ends,
}

impl Engine<'_> {
    /// One window of a program that was started here, kept too, whose ranks may wait behind `MPI_Init`.
    ///
    /// # Errors
    /// Nothing was measured.
    pub fn window_of_program(
        &self,
        program: &mut Program,
        job: Job,
        options: &Options,
        first_call: Option<FirstCall>,
    ) -> Result<Measured, Error> {
        let fresh = self.fresh_of_program(program, job, options, first_call);
        self.kept(fresh)
    }

    /// Measures one window of a job on this machine, which is in the log and in no store.
    ///
    /// # Errors
    /// Nothing was measured.
    pub fn measure(&self, job: &Job, options: &Options, just_begun: bool) -> Result<Outcome, Error> {
        let told = Told::to(self.listener);
        let once = || measure(job, options, self.cache, &told);
        let measured = || if just_begun { when_ready(once, trimtab_measure::Error::is_loading) } else { once() };
        let change = Audited::begin(self.audit, &options.trigger, Changed::Ranks(&chosen(job, options)))?;
        Ok(change.around(measured)?)
    }

    /// The plan for each chosen rank of a job on this machine, in words, and the functions that are left out; nothing is changed.
    ///
    /// # Errors
    /// Nothing can be planned.
    pub fn plan(&self, job: &Job, options: &Options) -> Result<Vec<PlannedRank>, Error> {
        let planned = |(process, plan, refused): (RankProcess, Plan, Vec<Refused>)| {
            let left_out = refused.into_iter().map(|one| (one.name, one.reason.to_string())).collect();
            PlannedRank { rank: process.rank, pid: process.pid, plan: plan.to_string(), left_out }
        };
        Ok(dry_run(job, options, self.cache)?.into_iter().map(planned).collect())
    }

    pub(crate) fn window_here(&self, job: &Job, window: &Window) -> Result<Fresh, Error> {
        let known = KnownJob::here(job);
        let options = Options { known_loop: self.known_loop(&known.key)?, ..window.options.clone() };
        let ends = ends_of(job);
        let mut outcome = self.measure(job, &options, window.just_begun)?;
        if let Some(elsewhere) = elsewhere(job) {
            outcome.report.window.valid = false;
            outcome.report.warnings.push(elsewhere);
        }
        Ok(Fresh { outcome, known, filing: None, ends })
    }

    fn fresh_of_program(
        &self,
        program: &mut Program,
        job: Job,
        options: &Options,
        first_call: Option<FirstCall>,
    ) -> Result<Fresh, Error> {
        let pids = |job: &Job| job.ranks.iter().map(|rank| rank.pid).collect::<Vec<_>>();
        let (mut ends, first_pids) = (ends_of(&job), pids(&job));
        let is_interrupted = || self.listener.is_interrupted();
        let (job, held) = match first_call {
            Some(first_call) => {
                let (job, held) = first_call.gathered(job, &|| program.whole_job(), &is_interrupted);
                (job, Some(held))
            }
            None => (job, None),
        };
        if pids(&job) != first_pids {
            ends = ends_of(&job);
        }
        if let Some(held) = held.as_ref().filter(|held| !held.is_any()) {
            let why = held.missed().into_values().next().map_or_else(String::new, |why| why.to_string());
            self.listener.hear(&Event::Warning(format!("no rank is measured from its first call on: {why}")));
        }
        let told = Told::to(self.listener);
        let change = Audited::begin(self.audit, &options.trigger, Changed::Ranks(&chosen(&job, options)))?;
        let outcome = change.around(|| match held {
            Some(held) => Ok(measure_from_first_call(&job, options, self.cache, &told, held)?),
            None => measure_when_ready(program, &job, options, self.cache, &told),
        })?;
        Ok(Fresh { outcome, known: KnownJob::here(&job), filing: None, ends })
    }

    pub(crate) fn known_loop(&self, key: &str) -> Result<Option<Box<trimtab_types::report::LoopPlace>>, Error> {
        let known = self.store.map(|store| store.known_loop(key)).transpose().map_err(Error::Store)?;
        Ok(known.flatten().map(Box::new))
    }

    pub(crate) fn keep(&self, known: &KnownJob, report: &mut Report) -> Result<(), Error> {
        self.store.map_or(Ok(()), |store| store.keep(known, report)).map_err(Error::Store)
    }

    pub(crate) fn kept(&self, fresh: Result<Fresh, Error>) -> Result<Measured, Error> {
        self.listener.hear(&Event::Done);
        let Fresh { outcome: Outcome { mut report, headline, departed }, known, filing, ends } = fresh?;
        let kept = self.keep(&known, &mut report);
        Ok(Measured { report, headline, kept, ends: ends.with(departed), key: known.key, filing })
    }
}

/// Watches the ranks of this machine.
fn ends_of(job: &Job) -> Ends {
    Ends::watch(job.ranks.iter().map(|rank| rank.pid))
}
