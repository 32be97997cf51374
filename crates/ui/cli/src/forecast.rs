//! `forecast`: when a running job ends, from windows of it and from earlier runs.
//!
//! Next: `outcomes` for what came of forecasts, `trimtab-forecasts` for the forecast itself; docs/forecasts.md describes the output.

use crate::arguments::JobForecastOptions;
use crate::engine::{Kept, Parts};
use crate::exit_code::{DONE, PARTIAL};
use crate::output::time;
use crate::progress::Terminal;
use crate::{attach, departed, outcomes, output};
use anyhow::{Context, bail};
use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use trimtab_controller::forecasts::{JobMade, Whose};
use trimtab_engine::progress::End;
use trimtab_engine::{Engine, Found, Length, Life, Options, Target, Window, own, usual_options};
use trimtab_report::outer_progress;
use trimtab_store::{History, RunEnd};
use trimtab_types::Pid;
use trimtab_types::report::{Ended, Report};

/// A window lasts this share of the job's age,
const WINDOW_SHARE: f64 = 0.1;
/// within these bounds, seconds.
const WINDOW_S: (f64, f64) = (0.5, 10.0);
/// The same of the time between two windows.
const PAUSE_S: (f64, f64) = (1.0, 20.0);
/// How long nobody looks whether the job, or the user, has ended it.
const LOOK: Duration = Duration::from_millis(50);

/// `trimtab forecast job JOB`.
pub fn job(options: &JobForecastOptions, store: &Option<PathBuf>, command_ns: u64) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let kept = Kept::open(store.as_deref())?;
    let parts = Parts::of(None);
    let terminal = Terminal::new()?;
    let engine = parts.engine(&terminal, Some(&kept));
    outcomes::fill(&engine, &kept, true)?;
    let found = found(options, &engine, &kept)?;
    let way = Way {
        options,
        engine,
        kept: &kept,
        found: &found,
        terminal: &terminal,
        begun: Instant::now(),
        departed: Cell::new(DONE),
    };
    let made = way.forecast(command_ns)?;
    way.keep(&made)?;
    terminal.finish();
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&made.answer())?)?,
        None => output::print_text(&page(&made))?,
    }
    if options.until_end {
        way.wait_for_end(&made)?;
    }
    let is_expected = made.end.as_ref().is_ok_and(|end| end.remaining_s.is_some()) && made.why_not_claimed().is_none();
    Ok(if is_expected { way.departed.get() } else { PARTIAL.max(way.departed.get()) })
}

fn found(options: &JobForecastOptions, engine: &Engine<'_>, kept: &Kept) -> anyhow::Result<Found> {
    if let Some(id) = options.slurm {
        return Ok(engine.find(Target::Slurm(id), None)?);
    }
    let text = options.job.as_deref().context("give a process id, a job of `trimtab list`, or --slurm JOB")?;
    match text.parse::<i32>() {
        Ok(pid) => Ok(engine.find(Target::Process(Pid(pid)), None)?),
        Err(_) => attach::found_again(engine, &kept.store(), text),
    }
}

/// The way to a forecast of one job.
struct Way<'a> {
    options: &'a JobForecastOptions,
    engine: Engine<'a>,
    kept: &'a Kept,
    found: &'a Found,
    terminal: &'a Terminal,
    begun: Instant,
    /// The exit code once processes have ended that trimtab may have harmed.
    departed: Cell<u8>,
}

impl Way<'_> {
    fn forecast(&self, command_ns: u64) -> anyhow::Result<JobMade> {
        if let Some(newest_s) = self.options.newest
            && let Some(made) = self.of_store()?
            && made.window_ended_ago_s().is_some_and(|ago_s| ago_s <= newest_s)
        {
            return Ok(made);
        }
        let report = self.measure(command_ns)?;
        if has_ended(&report) {
            bail!("the job ended while it was measured");
        }
        let counts = report.window.main_loop.is_some();
        let made = self.made_of(report)?;
        let wants_more = made.end.as_ref().is_ok_and(|end| end.is_worth_a_look);
        // In less time another window may find no loop.
        if !wants_more || !self.pause(made.elapsed_s, self.begun.elapsed().as_secs_f64()) {
            return Ok(made);
        }
        // The job may have ended meanwhile; what was forecast is kept, and judged by that.
        match self.measure(own::monotonic_ns()) {
            Ok(report) if has_ended(&report) => {
                self.keep(&made)?;
                bail!("the job ended while it was measured again")
            }
            Ok(report) if counts && report.window.main_loop.is_none() => Ok(made),
            Ok(report) => self.made_of(report),
            Err(_) => Ok(made),
        }
    }

    /// From the newest window in the store; `None`: there is none.
    fn of_store(&self) -> anyhow::Result<Option<JobMade>> {
        let (key, is_beginning) = self.engine.key_of(self.found);
        let store = self.kept.store();
        let jobs = store.list_jobs()?;
        let is_meant = |known: &str| if is_beginning { known.starts_with(&key) } else { known == key };
        let Some(job) = jobs.into_iter().find(|job| is_meant(&job.key)) else { return Ok(None) };
        let newest = store.newest_window(Some(&job.id))?;
        drop(store);
        newest.map(|report| self.made_of(report)).transpose()
    }

    fn measure(&self, command_ns: u64) -> anyhow::Result<Report> {
        let left_s = (self.options.within - self.begun.elapsed().as_secs_f64()).max(WINDOW_S.0);
        let age_s = self.engine.age_s(self.found).unwrap_or(WINDOW_S.1 / WINDOW_SHARE);
        let length_s = (WINDOW_SHARE * age_s).clamp(WINDOW_S.0, WINDOW_S.1).min(left_s);
        let options = Options {
            length: Length::AtLeast(length_s),
            max_seconds: left_s.max(2.0 * length_s),
            seccomp_ok: self.options.seccomp_ok,
            command_ns,
            ..usual_options("forecast")
        };
        let measured = self.engine.window(self.found, &Window::new(options))?;
        self.departed.set(departed::told(&measured.ends, self.departed.get()));
        measured.kept.context("a forecast that can't be stored is not made")?;
        Ok(measured.report)
    }

    /// Waits between two windows; false if the time is over, `window_s` of which another window needs, or the user ended it.
    fn pause(&self, age_s: f64, window_s: f64) -> bool {
        let left_s = self.options.within - self.begun.elapsed().as_secs_f64();
        let Some(pause_s) = pause_s(age_s, left_s, window_s) else { return false };
        self.terminal.say("waiting before another look, because the first leaves much open".to_owned());
        let begun = Instant::now();
        while begun.elapsed().as_secs_f64() < pause_s {
            if self.terminal.is_interrupted() {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// The forecast after a window, with all earlier windows of the job and all earlier runs.
    fn made_of(&self, report: Report) -> anyhow::Result<JobMade> {
        let (age_s, unix_s) = (self.engine.age_s(self.found), own::unix_s());
        Ok(JobMade::of(&self.kept.store(), report, age_s, unix_s, Whose::Own)?)
    }

    fn keep(&self, made: &JobMade) -> anyhow::Result<()> {
        if let Some(forecast) = made.forecast() {
            self.kept.store().note_forecast(&made.run.key, &forecast)?;
        }
        Ok(())
    }

    /// Stays until the job has ended, and notes when.
    fn wait_for_end(&self, made: &JobMade) -> anyhow::Result<()> {
        if matches!(self.found, Found::Spread(_)) {
            bail!(
                "--until-end watches processes of this machine; the end of this job is noted by the next `trimtab backtest`"
            );
        }
        let known = outcomes::known_job(self.kept, &made.run)?.context("the job is in the store no more")?;
        let mut after_unix_s = made.unix_s;
        while !self.terminal.is_interrupted() {
            let now = own::unix_s();
            if self.engine.life(&known, false) != Life::Runs {
                let end = RunEnd { after_unix_s: after_unix_s.min(now), before_unix_s: now };
                return Ok(self.kept.store().note_end(&made.run.key, end)?);
            }
            after_unix_s = now;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// How long to wait before another window, of a job of this age, where so much time is left and a window needs `window_s` of it;
/// `None`: there is no time for one.
fn pause_s(age_s: f64, left_s: f64, window_s: f64) -> Option<f64> {
    let pause_s = (WINDOW_SHARE * age_s).clamp(PAUSE_S.0, PAUSE_S.1).min(left_s - window_s);
    (pause_s >= PAUSE_S.0).then_some(pause_s)
}

/// True if nothing is left of the job whose window this is: its end is over.
fn has_ended(report: &Report) -> bool {
    report.window.ended_by == Ended::ProgramEnded && !report.window.valid
}

fn page(made: &JobMade) -> String {
    let (run, progress) = (&made.run, made.report.window.progress.clone().unwrap_or_default());
    let mut lines = vec![format!(
        "{} ({}, {} rank{}), running for {}",
        run.job,
        run.program.rsplit('/').next().unwrap_or(&run.program),
        run.ranks,
        if run.ranks == 1 { "" } else { "s" },
        time(made.elapsed_s)
    )];
    lines.extend(match (progress.done, progress.total, progress.total_at_most) {
        (Some(done), Some(total), _) => {
            Some(format!("{done} of {total} iterations done ({:.1}%)", 100.0 * done as f64 / total.max(1) as f64))
        }
        (Some(done), None, Some(most)) => {
            let at_most = format!("{done} iterations done, of {most} at most");
            Some(likely_way(made).map_or(at_most.clone(), |likely| format!("{at_most}; {likely}")))
        }
        (Some(done), None, None) => Some(format!("{done} iterations done")),
        (None, ..) => likely_way(made).or_else(|| progress.remaining.map(|left| format!("{left} iterations to come"))),
    });
    lines.extend(made.report.window.outer_progress.iter().filter_map(outer_progress));
    match &made.end {
        Ok(end) => lines.extend(end_lines(end, made)),
        Err(error) => {
            let rate = made.report.iterations_per_s.map(|rate| format!("{rate:.4} iterations per second; "));
            lines.push(format!("{}no end is claimed: {error}", rate.unwrap_or_default()));
        }
    }
    lines.join("\n")
}

fn likely_way(made: &JobMade) -> Option<String> {
    let likely = made.likely()?;
    let range = likely.remaining_lower.zip(likely.remaining_upper);
    if let Some(most) = likely.remaining_at_most {
        return Some(match likely.done {
            Some(done) => format!("probably {done} iterations done, at most {most} to come"),
            None => format!("probably at most {most} iterations to come"),
        });
    }
    match (likely.done.zip(likely.total), likely.remaining, range) {
        (Some((done, total)), ..) => Some(format!("probably {done} of {total} iterations done")),
        (None, Some(left), Some((lower, upper))) => {
            Some(format!("probably {left} iterations to come, {lower} to {upper}"))
        }
        (None, remaining, _) => remaining.map(|remaining| format!("probably {remaining} iterations to come")),
    }
}

fn end_lines(end: &End, made: &JobMade) -> Vec<String> {
    let (it, job) = if made.is_of_inner_loop() { ("its loop ", ", the job then or later") } else { ("", "") };
    let first = match end.remaining_s {
        _ if made.is_of_inner_loop() && end.late_s <= 0.0 => "its loop has ended since the window".to_owned(),
        Some(remaining) => format!(
            "{it}ends in {} (90%: {} to {}; 99%: before {}){job}",
            time(remaining),
            time(end.lower_s),
            time(end.upper_s),
            time(end.late_s)
        ),
        None => format!("{it}ends in at most {} (95%; 99%: {}){job}", time(end.upper_s), time(end.late_s)),
    };
    let said = end.because.iter().chain(&made.cautions);
    let first = if made.is_only_likely() { format!("probably {first}") } else { first };
    let method = made.method().unwrap_or_default();
    [first, format!("by {method}:")].into_iter().chain(said.map(|line| format!("  {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In less time than the first one took, another window may find no loop.
    #[test]
    fn another_window_has_the_time_of_the_first() {
        assert_eq!(pause_s(30.0, 27.0, 3.0), Some(3.0));
        assert_eq!(pause_s(620.0, 27.0, 3.0), Some(20.0));
        assert_eq!(pause_s(620.0, 15.0, 10.0), Some(5.0), "the wait is shorter, and not the window");
        assert_eq!(pause_s(620.0, 15.0, 14.5), None);
        assert_eq!(pause_s(620.0, 4.0, 10.0), None);
    }
}
