//! `--when` and `--windows`: windows of a job, each measured when something happens.
//!
//! Next: `trimtab-engine`'s `wait` for events, `window` for each window.

use crate::arguments::site::SiteOptions;
use crate::arguments::{EventOptions, WindowOptions};
use crate::engine::{Kept, Parts};
use crate::exit_code::{DONE, PARTIAL};
use crate::output;
use crate::progress::Terminal;
use crate::window::{is_count, window_of, window_options};
use anyhow::bail;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use trimtab_engine::{Condition, Found, Next, Wait, Waiting, When, call, own};
use trimtab_store::Store;
use trimtab_types::report::Event;

/// Windows of a job that was found, each after an event.
pub fn run(
    options: &WindowOptions,
    events: &EventOptions,
    found: &Found,
    site: &SiteOptions,
    store: &Option<PathBuf>,
    trigger: &str,
) -> anyhow::Result<u8> {
    if options.dry_run {
        bail!("--dry-run shows a plan at once: leave out --when and --windows");
    }
    if events.windows() != Some(1) && options.html.is_some() {
        bail!("--html writes one window: leave out --windows, and use `trimtab report JOB/WINDOW --html FILE` later");
    }
    // A window that could not be stored is not waited for.
    let kept = Kept::open(store.as_deref())?;
    let terminal = Terminal::new()?;
    let signal = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, signal.clone())?;
    let parts = Parts::of(Some(site));
    let pace = window_options(options, trigger, own::monotonic_ns())?;
    let wait = Wait { whens: &events.when, command: trigger, options: &pace, signal: &signal };
    let mut series = Series { options, events, found, site, store, trigger, measured: 0, code: DONE };
    parts.engine(&terminal, Some(&kept)).wait(found, wait, |waiting| series.run(waiting))
}

/// Several windows of one job.
struct Series<'a> {
    options: &'a WindowOptions,
    events: &'a EventOptions,
    found: &'a Found,
    site: &'a SiteOptions,
    store: &'a Option<PathBuf>,
    trigger: &'a str,
    measured: u64,
    /// The worst exit code of a window.
    code: u8,
}

impl Series<'_> {
    fn run(&mut self, waiting: &mut Waiting<'_>) -> anyhow::Result<u8> {
        let mut tries = 0;
        while self.events.windows().is_none_or(|windows| tries < windows) {
            self.announce(waiting);
            let event = match waiting.next_event()? {
                Next::Window(event) => event,
                Next::Ended => {
                    eprintln!("trimtab: the job has ended; {} measured", windows(self.measured));
                    break;
                }
                Next::Interrupted => break,
            };
            if let Some(Event { condition, value, .. }) = &event {
                let value = if value.is_empty() { String::new() } else { format!(": {value}") };
                eprintln!("trimtab: {condition}{value}");
            }
            tries += 1;
            if self.events.windows() == Some(tries) {
                waiting.no_more_calls();
            }
            self.window(event)?;
        }
        Ok(if self.measured == 0 { PARTIAL } else { self.code })
    }

    /// Until a window is measured, says what is waited for and how it is called.
    fn announce(&self, waiting: &Waiting<'_>) {
        if self.events.when.is_empty() || self.measured > 0 {
            return;
        }
        let what = self.events.when.iter().map(When::to_string).collect::<Vec<_>>().join(", ");
        eprintln!("trimtab: waiting for {what}; `trimtab trigger {}` measures at once", waiting.name());
        if let Some(name) = waiting.site_name() {
            eprintln!("trimtab: the site calls this job {name}");
        }
    }

    /// One window. One that fails among several is told, and the next event waited for.
    fn window(&mut self, event: Option<Event>) -> anyhow::Result<()> {
        let counted = self.events.when.iter().find_map(|when| match when.condition {
            Condition::Iterations(count) => Some(count).filter(|_| event.as_ref().is_some_and(is_count)),
            _ => None,
        });
        let options = WindowOptions {
            start: counted.or(self.options.start),
            event,
            one_of_many: self.events.windows() != Some(1),
            ..self.options.clone()
        };
        match window_of(&options, self.found, self.site, self.store, own::monotonic_ns(), self.trigger, None) {
            Ok(code) => {
                self.measured += 1;
                self.code = self.code.max(code);
            }
            Err(error) if self.events.windows() == Some(1) => return Err(error),
            Err(error) => {
                self.code = PARTIAL;
                eprintln!("trimtab: this window was not measured: {}", output::chain(&error));
            }
        }
        Ok(())
    }
}

fn windows(count: u64) -> String {
    if count == 1 { "1 window was".to_owned() } else { format!("{count} windows were") }
}

/// `trimtab trigger JOB [NAME]`.
pub fn trigger(job: &str, name: &str, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    // A beginning of a job's short name will do where the store knows it.
    let known = Store::open_to_read(store.as_deref()).and_then(|store| store.find(job));
    let id = known.map_or_else(|_| job.to_owned(), |selection| selection.job.id.to_string());
    let names = if id == job { vec![job] } else { vec![job, &id] };
    let called = call(&names, name)?;
    if called.fired > 0 {
        output::print_text(&format!(
            "{job}: {} now",
            if called.fired == 1 { "measured" } else { "measured several times" }
        ))?;
        return Ok(DONE);
    }
    if called.silent > 0 {
        bail!("whoever waits measures just now; try again when that window is over");
    }
    bail!("nobody waits for job {job}; start `trimtab attach PID --when call`, and give its launcher's pid or its id");
}
