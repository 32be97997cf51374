//! Why a call from C returned an error.
//!
//! Next: `edge`, which keeps the words for `trimtab_error`.

use trimtab_site::SiteError;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A pointer that must not be null, or text that is not UTF-8.
    #[error("{0} is null, or is no text in UTF-8")]
    Argument(&'static str),
    /// There are no words to run.
    #[error("there is no program to start")]
    NoProgram,
    /// A program can't be started.
    #[error("can't start {program}: {source}")]
    NotStarted {
        /// Which.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// The system gives no thread that waits for a window, which goes on unheard.
    #[error("no thread can wait for the window: {0}")]
    NoThread(std::io::Error),
    /// A window goes on.
    #[error("a window of this job goes on: trimtab_wait gets its report")]
    Busy,
    /// No window goes on.
    #[error("no window of this job goes on")]
    NoWindow,
    /// The program `trimtab` says so.
    #[error("{0}")]
    Said(String),
    /// A question that can't be understood.
    #[error("the question is no JSON: {0}")]
    NoJson(#[from] serde_json::Error),
    /// A question that only a controller can be asked.
    #[error("{0} can be asked of a site's controller only: set TRIMTAB_CONTROLLER")]
    OnlyAtSite(String),
    /// A panic, whose text went to standard error.
    #[error("this is a defect of trimtab: its words are on standard error, please report them")]
    Defect,
    /// The controller.
    #[error(transparent)]
    Site(#[from] SiteError),
}
