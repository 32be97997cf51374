//! Every change of a rank leaves its lines in the log of its host, before and after. The log is handed in, as one is to an
//! engine.
//!
//! Next: `serve`, which changes ranks; `trimtab-standing` for the log.

use trimtab_engine::{BoxError, Changed, End};

/// The log of this host, as agents write it.
pub trait ChangeLog: Sync {
    /// A change of processes, for a command of whoever runs this program. No line of it is written yet.
    ///
    /// # Errors
    /// A process is gone, or the log can't be written.
    fn change(&self, command: &str, changed: Changed<'_>) -> Result<Box<dyn LoggedChange>, BoxError>;
}

/// A log that is there as long as the program.
pub type Log = &'static dyn ChangeLog;

/// A change that is to stand in the log.
pub trait LoggedChange: Send {
    /// Checks that whoever runs this program may measure all of the processes.
    ///
    /// # Errors
    /// The first that it may not.
    fn permit(&self) -> Result<(), BoxError>;

    /// Before they are changed.
    ///
    /// # Errors
    /// When the log can't be written; then nothing may be changed.
    fn begin(&mut self) -> Result<(), BoxError>;

    /// After they were restored; once for each beginning.
    fn end(&mut self, end: &End);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Keeps no line.
    pub(crate) struct Nothing;

    impl ChangeLog for Nothing {
        fn change(&self, _: &str, _: Changed<'_>) -> Result<Box<dyn LoggedChange>, BoxError> {
            Ok(Box::new(Nothing))
        }
    }

    impl LoggedChange for Nothing {
        fn permit(&self) -> Result<(), BoxError> {
            Ok(())
        }

        fn begin(&mut self) -> Result<(), BoxError> {
            Ok(())
        }

        fn end(&mut self, _: &End) {}
    }
}
