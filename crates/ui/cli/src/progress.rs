//! Progress on a terminal: one line on standard error that comes and goes; nothing without a terminal.
//!
//! Next: `trimtab-engine`, whose events it shows.

use anyhow::Context;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use signal_hook::iterator::Signals;
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trimtab_engine::{Event, Listener, Partial, ScriptSoFar, Stage, WindowSoFar, WindowStage};

/// A signal that comes so soon after the first is the same: `timeout` and some batch systems send it twice.
const SAME_SIGNAL: Duration = Duration::from_secs(1);
/// Why there may be no thread.
const NO_THREAD: &str =
    "no thread can be started: this user may have as many as there are (`ulimit -u`), or there is no memory";
/// Exit status of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Shows stages and listens for an interrupt.
#[derive(Debug)]
pub struct Terminal {
    bar: ProgressBar,
    /// The phase that goes on now: its time counts from when it began.
    phase: Mutex<String>,
    interrupted: Arc<AtomicBool>,
}

impl Terminal {
    /// A line on standard error if that is a terminal; the first interrupt ends the window, a later one trimtab.
    pub fn new() -> anyhow::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let signals = Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
        let told = interrupted.clone();
        std::thread::Builder::new()
            .name("trimtab-signals".to_owned())
            .spawn(move || attend(signals, &told))
            .context(NO_THREAD)?;
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let begun = Instant::now();
        let total = move |state: &ProgressState, text: &mut dyn Write| {
            // A line of progress without its time is still one.
            let _shown =
                write!(text, "for {} s, {} s since the command", state.elapsed().as_secs(), begun.elapsed().as_secs());
        };
        bar.set_style(ProgressStyle::with_template("{spinner} {msg} [{total}]")?.with_key("total", total));
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        Ok(Terminal { bar, phase: Mutex::default(), interrupted })
    }

    /// True if the user wants it to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Shows one line, or nothing without a terminal.
    pub fn say(&self, text: String) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *phase != phase_of(&text) {
            *phase = phase_of(&text).to_owned();
            self.bar.reset_elapsed();
        }
        self.bar.set_message(text);
    }

    /// Prints a line on standard output, above the progress line.
    pub fn print(&self, line: &str) -> anyhow::Result<()> {
        self.bar.suspend(|| crate::output::print_text(line))
    }

    /// Takes the line away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The phase that a line names: the words before its numbers and details.
fn phase_of(text: &str) -> &str {
    text.split(|letter: char| letter.is_ascii_digit() || ",:".contains(letter)).next().unwrap_or_default()
}

/// Hears of signals for as long as this program runs.
fn attend(mut signals: Signals, interrupted: &AtomicBool) {
    let mut first = None;
    for _signal in signals.forever() {
        if !is_another(&mut first, Instant::now()) {
            interrupted.store(true, Ordering::Relaxed);
            continue;
        }
        eprintln!(
            "trimtab: interrupted twice: ended at once; `trimtab undo PID` takes out what may still be in a program"
        );
        signal_hook::low_level::exit(INTERRUPTED);
    }
}

/// True if a signal is not the first one again. Some programs send one to the process and then to its group.
fn is_another(first: &mut Option<Instant>, now: Instant) -> bool {
    now.saturating_duration_since(*first.get_or_insert(now)) >= SAME_SIGNAL
}

impl Listener for Terminal {
    fn hear(&self, event: &Event) {
        match event {
            Event::Stage(Stage::Holding { nodes, of }) => {
                eprintln!("trimtab: {nodes} of {of} nodes are looked at: ranks are held that begin MPI from now on");
            }
            Event::Stage(Stage::Watching { name, source }) => eprintln!("trimtab: watching for {name} by {source}"),
            Event::Stage(stage) => self.say(shown(stage)),
            Event::Partial(Partial::Window(so_far)) => self.say(recorded(so_far)),
            Event::Partial(Partial::Script(ScriptSoFar { seconds, functions, .. })) => {
                self.say(format!("probing {functions} functions, {seconds:.1} s"));
            }
            // Whoever has a script shows its messages.
            Event::Message(_) => {}
            Event::Warning(text) => eprintln!("trimtab: {text}"),
            Event::Done => self.finish(),
        }
    }

    fn is_interrupted(&self) -> bool {
        Terminal::is_interrupted(self)
    }
}

fn shown(stage: &Stage) -> String {
    match stage {
        Stage::Gathering { job, nodes, by_site } => {
            let how = if *by_site { "asking the site's agents" } else { "starting agents" };
            format!("{how} on {nodes} nodes of {job}")
        }
        Stage::Holding { nodes, .. } => format!("holding ranks on {nodes} nodes"),
        Stage::Running { done, of, at } => format!("running, {done} of {of} done: {at}"),
        Stage::Pressing { what, level } => format!("beside probes that press on {what}, {:.0}%", 100.0 * level),
        Stage::Waiting { events } => format!("waiting for {events}"),
        Stage::Reading => "reading symbols".to_owned(),
        Stage::Looking { look, of } => format!("looking at stacks, {look} of {of}"),
        Stage::Counting { seconds } => format!("counting passes, {seconds:.1} s"),
        Stage::Watching { name, .. } => format!("watching for {name}"),
        Stage::Window(stage) => of_window(stage),
    }
}

fn of_window(stage: &WindowStage) -> String {
    match stage {
        WindowStage::Planning => "reading symbols and putting the probes in".to_string(),
        WindowStage::Inserting { ranks } => format!("patched {ranks} ranks, waiting for their first calls"),
        WindowStage::Observing { seconds, why } => format!("looking for the main loop, {seconds:.1} s: {why}"),
        WindowStage::Armed { start } => format!("recording begins at iteration {start}"),
        WindowStage::Removing => "restoring all ranks".to_string(),
    }
}

fn recorded(so_far: &WindowSoFar) -> String {
    let seconds = so_far.seconds;
    let done = match (so_far.iterations, so_far.wanted) {
        (None, _) => format!("recorded {seconds:.1} s"),
        (Some(done), None) => format!("recorded {done} iterations, {seconds:.1} s"),
        (Some(done), Some(wanted)) => format!("recorded {done} of {wanted} iterations, {seconds:.1} s"),
    };
    let Some(share) = so_far.comm_share else { return done };
    let least = so_far
        .least_comm
        .map_or(String::new(), |least| format!(" (rank {} least: {:.0}%)", least.rank, 100.0 * least.share));
    format!("{done}, communication {:.0}%{least}", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress_names_its_phase_whatever_its_numbers() {
        for (text, phase) in [
            ("recorded 3 of 10 iterations, 1.5 s", "recorded "),
            ("recorded 4 of 10 iterations, 1.6 s", "recorded "),
            ("looking for the main loop, 2.0 s: no call", "looking for the main loop"),
            ("restoring all ranks", "restoring all ranks"),
            ("", ""),
        ] {
            assert_eq!(phase_of(text), phase, "{text}");
        }
    }

    #[test]
    fn a_signal_that_comes_twice_is_one() {
        let (mut first, begin) = (None, Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        for (ms, is_second) in [(0, false), (1, false), (999, false), (1000, true), (5000, true)] {
            assert_eq!(is_another(&mut first, at(ms)), is_second, "after {ms} ms");
        }
    }
}
