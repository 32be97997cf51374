//! One window from the command to the report.
//!
//! Next: `team` (in and out), `marker` (what counts), `recording` (when), `readout` (what it says).

use crate::error::Error;
use crate::marker::{self, Marker};
use crate::options::{Options, Progress, Stage};
use crate::readout::{self, Clock};
use crate::recording;
use crate::team::Team;
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
    let marker = marker::find(&team, options, cache, progress)?;
    let ticks_per_second = clock.ticks_per_second();
    let recorded = match &marker {
        Marker::Time { .. } => recording::by_time(&team, options, progress)?,
        Marker::Call(call) => recording::by_iterations(&team, call, options, ticks_per_second, progress)?,
    };
    let verdict = readout::verify_marks(&team, &marker, cache);
    progress.stage(&Stage::Removing);
    team.remove();
    let report = readout::report(job, options, &team, &marker, &recorded, &verdict, &clock);
    let headline = trimtab_window::headline(&report);
    Ok(Outcome { report, headline })
}
