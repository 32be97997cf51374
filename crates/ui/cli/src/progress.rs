//! Progress on a terminal: one line on standard error that comes and goes; nothing without a terminal.
//!
//! Next: `window` passes it to the measurement.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trimtab_measure::{Progress, Stage};

/// Shows stages and listens for an interrupt.
#[derive(Debug)]
pub struct Terminal {
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
}

impl Terminal {
    /// A line on standard error if that is a terminal; the first interrupt ends the window, a second one trimtab.
    pub fn new() -> anyhow::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, interrupted.clone())?;
            signal_hook::flag::register(signal, interrupted.clone())?;
        }
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
