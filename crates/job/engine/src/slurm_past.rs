//! Jobs of the last days, as Slurm's accounting knows them.
//!
//! Next: `trimtab-history`, which reads and learns from them.

use crate::error::Error;
use trimtab_track::slurm::{Accounting, Program, default_partition, jobs_of_days};

/// The past of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmPast {
    /// Jobs as `sacct --parsable2` prints them; [`read_log`](trimtab_history::read_log) reads it.
    pub jobs: String,
    /// The partition of jobs that name none.
    pub default_partition: Option<String>,
}

/// The jobs of the last days that the user may see.
///
/// # Errors
/// Slurm is not here, does not answer, or keeps no accounts.
pub fn slurm_past(days: u32) -> Result<SlurmPast, Error> {
    let jobs = jobs_of_days(&Accounting, days)?;
    // Without it the user names the partition.
    let default_partition = default_partition(&Program).ok().flatten();
    Ok(SlurmPast { jobs, default_partition })
}
