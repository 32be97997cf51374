//! One window from the command to the report.
//!
//! Next: `team` (in and out), `marker` (what counts), `recording` (when), `readout` (what it says).

use crate::checked;
use crate::early::Early;
use crate::error::Error;
use crate::marker::{self, Marker, Observer};
use crate::options::{Options, Progress, Stage};
use crate::readout::{self, Clock};
use crate::recording::{self, Recorded};
use crate::team::Team;
use trimtab_os::monotonic_ns;
use trimtab_session::ImageCache;
use trimtab_track::Job;
use trimtab_types::report::Report;

/// A finished window.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was measured.
    pub report: Report,
    /// Its first sentences.
    pub headline: String,
}

/// Measures one window of `job`. Whatever happens, every rank is restored before this returns.
pub fn measure(job: &Job, options: &Options, cache: &ImageCache, progress: &dyn Progress) -> Result<Outcome, Error> {
    let clock = Clock::start();
    progress.stage(&Stage::Planning);
    let mut team = Team::insert(job, options, cache).map_err(Error::or_ended)?;
    progress.stage(&Stage::Inserting { ranks: team.members.len() });
    let (marker, recorded) = window(&team, options, cache, &clock, progress)?;
    let verdict = checked::verify_marks(&team, &marker, cache);
    progress.stage(&Stage::Removing);
    team.remove();
    let report = readout::report(job, options, &team, &marker, &recorded, &verdict, &clock);
    let headline = trimtab_window::headline(&report);
    Ok(Outcome { report, headline })
}

/// Finds what counts iterations and records; by time if nothing does.
fn window(
    team: &Team,
    options: &Options,
    cache: &ImageCache,
    clock: &Clock,
    progress: &dyn Progress,
) -> Result<(Marker, Recorded), Error> {
    let mut observer = Observer::new(team, cache);
    let found = marker::find(&mut observer, options, progress);
    let early = &mut observer.early;
    let marker = match found {
        // What is known of a program that ended too early was recorded by time.
        Err(Error::EndedEarly) if early.has_calls(team) => {
            let why = format!("the program ended after {:.1} s, before its main loop was sure", observed_s(early));
            return Ok((Marker::Time { why }, recording::cut_short(team, early)));
        }
        found => found?,
    };
    let recorded = match &marker {
        Marker::Time { .. } => recording::by_time(team, options, early, progress)?,
        Marker::Call(call) => recording::by_iterations(team, call, options, early, clock.ticks_per_second(), progress)?,
    };
    Ok((marker, recorded))
}

fn observed_s(early: &Early) -> f64 {
    early.begun_ns.map_or(0.0, |begun| (monotonic_ns() - begun) as f64 / 1e9)
}
