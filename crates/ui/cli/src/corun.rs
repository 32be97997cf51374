//! `forecast corun`: how much slower each of several jobs is beside the others, and who ends when; or who would be the better
//! partner.
//!
//! Next: `corun_given` for the jobs as they are named, `corun_shown` for what is printed, `trimtab-forecasts` for the forecast.

use crate::arguments::CorunOptions;
use crate::corun_given::{Given, Source, alone_named, given};
use crate::corun_shown::page;
use crate::engine::{Kept, Parts};
use crate::exit_code::{DONE, PARTIAL};
use crate::progress::Terminal;
use crate::{departed, outcomes, output};
use anyhow::{Context, bail};
use std::cell::Cell;
use std::path::PathBuf;
use std::time::Instant;
use trimtab_controller::forecasts::{
    Corun, CorunMade, CorunQuestion, CorunSide, Unknown, alone_stored, corun, note_meetings, profile_kept,
};
use trimtab_engine::corun::JobOutlook;
use trimtab_engine::{Engine, Found, Length, Options, Window, own, usual_options};
use trimtab_store::{Forecast, History};
use trimtab_types::report::Report;

/// The word for these among all forecasts.
const METHOD: &str = "jobs together";
/// A window lasts this share of the job's age,
const WINDOW_SHARE: f64 = 0.1;
/// within these bounds, seconds.
const WINDOW_S: (f64, f64) = (0.5, 10.0);
/// The distance of the 99% quantile over that of the end of a 90% interval, of a normal distribution.
const LATE_OF_UPPER: f64 = 2.326_347_9 / 1.644_853_6;

/// `trimtab forecast corun A B`.
pub fn run(options: &CorunOptions, store: &Option<PathBuf>, command_ns: u64) -> anyhow::Result<u8> {
    check(options)?;
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let kept = Kept::open(store.as_deref())?;
    let parts = Parts::of(None);
    let terminal = Terminal::new()?;
    let engine = parts.engine(&terminal, Some(&kept));
    let way = Way { options, engine, kept: &kept, begun: Instant::now(), departed: Cell::new(DONE) };
    let found = way.found(command_ns)?;
    terminal.finish();
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&found.answer())?)?,
        None => output::print_text(&page(&found))?,
    }
    let code = if found.is_whole() { DONE } else { PARTIAL };
    Ok(code.max(way.departed.get()))
}

fn check(options: &CorunOptions) -> anyhow::Result<()> {
    if options.jobs.len() + options.candidates.len() < 2 {
        bail!("give two jobs or more, or some that could join with --with");
    }
    if !options.offset.is_empty() && options.offset.len() + 1 != options.jobs.len() {
        bail!("--offset has a time for each job after the first: {} here", options.jobs.len() - 1);
    }
    Ok(())
}

/// The way to a forecast.
struct Way<'a> {
    options: &'a CorunOptions,
    engine: Engine<'a>,
    kept: &'a Kept,
    begun: Instant,
    /// The exit code once processes have ended that trimtab may have harmed.
    departed: Cell<u8>,
}

impl Way<'_> {
    fn found(&self, command_ns: u64) -> anyhow::Result<Corun> {
        let options = self.options;
        let all = options.jobs.iter().chain(&options.candidates);
        let jobs = all.map(|text| given(&self.engine, self.kept, text)).collect::<anyhow::Result<Vec<Given>>>()?;
        let alone = alone_named(self.kept, &options.jobs, &options.alone)?;
        let live = jobs.iter().filter(|job| matches!(job.source, Source::Live(_))).count();
        if live > 0 {
            outcomes::fill(&self.engine, self.kept, true)?;
        }
        let is_prediction = !options.on.is_empty() || !options.candidates.is_empty();
        let is_together = !is_prediction && (live == jobs.len() || alone.iter().any(Option::is_some));
        if is_together && live == jobs.len() && !options.offset.is_empty() {
            bail!("--offset is of jobs that have not begun, and these run");
        }
        let mut sides = Vec::new();
        for (at, (job, alone)) in jobs.into_iter().zip(alone.into_iter().chain(std::iter::repeat(None))).enumerate() {
            let begins_s = at.checked_sub(1).and_then(|at| options.offset.get(at).copied()).unwrap_or(0.0);
            sides.push((self.side(job, alone, is_together, begins_s, live, command_ns)?, begins_s));
        }
        let mut sides: Vec<CorunSide> = sides.into_iter().map(|(side, _)| side).collect();
        note_meetings(&self.kept.store(), &mut sides, &options.on)?;
        let made_unix_s = own::unix_s();
        let question = CorunQuestion {
            sides,
            candidates: options.candidates.len(),
            at_unix_s: (live > 0).then_some(made_unix_s),
            on: options.on.clone(),
            made_unix_s,
        };
        let found = corun(question)?;
        if let Corun::Jobs(made) = &found {
            self.keep(made)?;
        }
        Ok(found)
    }

    fn side(
        &self,
        given: Given,
        alone: Option<Report>,
        is_together: bool,
        begins_s: f64,
        live: usize,
        command_ns: u64,
    ) -> anyhow::Result<CorunSide> {
        let (now, is_live) = match given.source {
            Source::Live(found) => (self.measure(&found, live, command_ns)?, true),
            Source::Window(report) => (*report, false),
        };
        let alone = match alone {
            Some(alone) => Ok(alone),
            None if is_together && is_live => alone_stored(&self.kept.store(), &now)?,
            None => Err(Unknown::NoneGiven),
        };
        let name = given.name.unwrap_or_else(|| now.job.id.clone());
        let profile = match is_together {
            true => None,
            false => profile_kept(&self.kept.store(), &now, &self.options.on)?.map(|kept| kept.profile),
        };
        Ok(CorunSide {
            name,
            now,
            is_together,
            is_new: !is_together && !is_live,
            alone,
            profile,
            met: Vec::new(),
            begins_s,
        })
    }

    fn measure(&self, found: &Found, live: usize, command_ns: u64) -> anyhow::Result<Report> {
        let left_s = self.options.within - self.begun.elapsed().as_secs_f64();
        let most_s = (self.options.within / live as f64).min(left_s).max(WINDOW_S.0);
        let age_s = self.engine.age_s(found).unwrap_or(WINDOW_S.1 / WINDOW_SHARE);
        let length_s = (WINDOW_SHARE * age_s).clamp(WINDOW_S.0, WINDOW_S.1).min(most_s);
        let options = Options {
            length: Length::AtLeast(length_s),
            max_seconds: most_s.max(2.0 * length_s),
            seccomp_ok: self.options.seccomp_ok,
            command_ns,
            ..usual_options("forecast")
        };
        let measured = self.engine.window(found, &Window::new(options))?;
        self.departed.set(departed::told(&measured.ends, self.departed.get()));
        measured.kept.context("a forecast that can't be stored is not made")?;
        Ok(measured.report)
    }

    /// Ends of jobs that run are kept, to be judged by what comes.
    fn keep(&self, made: &CorunMade) -> anyhow::Result<()> {
        let is_live = |side: &CorunSide| self.kept.keys().iter().any(|key| self.is_key(key, side));
        for (side, outlook) in made.sides.iter().zip(&made.outlook.jobs) {
            if !side.is_together || !is_live(side) {
                continue;
            }
            self.keep_one(side, outlook, made.made_unix_s)?;
        }
        Ok(())
    }

    fn is_key(&self, key: &str, side: &CorunSide) -> bool {
        let id = self.kept.store().job_of_key(key);
        id.ok().flatten().is_some_and(|id| id.to_string() == side.now.job.id)
    }

    fn keep_one(&self, side: &CorunSide, outlook: &JobOutlook, made_unix_s: f64) -> anyhow::Result<()> {
        let Ok(end) = &outlook.end_s else { return Ok(()) };
        let (Some((lower, upper)), false) = (end.ends, outlook.is_at_most) else { return Ok(()) };
        // Nobody is told in advance of an end that is over.
        if end.value <= 0.0 {
            return Ok(());
        }
        let mut store = self.kept.store();
        let key = store.find(&side.now.job.id)?.job.key;
        let Some(started_unix_s) = store.run(&key)?.and_then(|run| run.started_unix_s) else { return Ok(()) };
        let progress = side.now.window.progress.clone().unwrap_or_default();
        let at = |seconds: f64| made_unix_s + seconds;
        let forecast = Forecast {
            made_unix_s,
            method: METHOD.to_owned(),
            elapsed_s: (made_unix_s - started_unix_s).max(0.0),
            iterations_done: progress.done,
            iterations_remaining: progress.remaining,
            end_unix_s: Some(at(end.value)),
            lower_unix_s: at(lower),
            upper_unix_s: at(upper),
            late_unix_s: at(end.value + LATE_OF_UPPER * (upper - end.value)),
            because: vec!["measured together with other jobs, which come to their ends, too".to_owned()],
        };
        store.note_forecast(&key, &forecast)?;
        Ok(())
    }
}
