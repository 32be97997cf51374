//! Progress on a terminal: one line on standard error that comes and goes; nothing without a terminal.
//!
//! Next: `window` passes it to the measurement.

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trimtab_measure::{Progress, Stage};

/// A signal that comes so soon after the first is the same: `timeout` and some batch systems send it twice.
const SAME_SIGNAL: Duration = Duration::from_secs(1);
/// Exit status of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Shows stages and listens for an interrupt.
#[derive(Debug)]
pub struct Terminal {
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
}

impl Terminal {
    /// A line on standard error if that is a terminal; the first interrupt ends the window, a later one trimtab.
    pub fn new() -> anyhow::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let signals = Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
        let told = interrupted.clone();
        std::thread::Builder::new().name("trimtab-signals".to_owned()).spawn(move || attend(signals, &told))?;
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}")?);
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        Ok(Terminal { bar, interrupted })
    }

    /// Whether the user wants it to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Shows one line, or nothing without a terminal.
    pub fn say(&self, text: String) {
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

/// Whether a signal is not the first one again. Some programs send one to the process and then to its group.
fn is_another(first: &mut Option<Instant>, now: Instant) -> bool {
    now.saturating_duration_since(*first.get_or_insert(now)) >= SAME_SIGNAL
}

impl Progress for Terminal {
    fn stage(&self, stage: &Stage) {
        self.bar.set_message(match stage {
            Stage::Planning => "reading symbols".to_string(),
            Stage::Inserting { ranks } => format!("patched {ranks} ranks"),
            Stage::Observing { seconds, why } => format!("looking for the main loop, {seconds:.1} s: {why}"),
            Stage::Armed { start } => format!("recording begins at iteration {start}"),
            Stage::Recording { done, wanted: 0, seconds } => format!("recorded {done} iterations, {seconds:.1} s"),
            Stage::Recording { done, wanted, seconds } => {
                format!("recorded {done} of {wanted} iterations, {seconds:.1} s")
            }
            Stage::Removing => "restoring all ranks".to_string(),
        });
    }

    fn is_interrupted(&self) -> bool {
        Terminal::is_interrupted(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_twice_is_one() {
        let (mut first, begin) = (None, Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        for (ms, is_second) in [(0, false), (1, false), (999, false), (1000, true), (5000, true)] {
            assert_eq!(is_another(&mut first, at(ms)), is_second, "after {ms} ms");
        }
    }
}
