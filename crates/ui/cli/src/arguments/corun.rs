//! The words of `forecast corun`.
//!
//! Next: `corun`, which carries it out.

use super::numbers::positive;
use clap::Args;
use std::path::PathBuf;

/// The options of `forecast corun`.
#[derive(Clone, Debug, Args)]
pub struct CorunOptions {
    /// Jobs that share processors: each the process id of a launcher or a rank, slurm:ID, a job or a window of the store, or a file
    /// with a report's JSON
    #[arg(value_name = "JOB", required = true)]
    pub jobs: Vec<String>,
    /// A window of a job alone: JOB as it is given above, or A for the first, B for the second; then the windows above are of these
    /// jobs together
    #[arg(long, value_name = "JOB=WINDOW|FILE")]
    pub alone: Vec<String>,
    /// Each job after the first begins so many seconds from now, in their order: `--offset 30,60`; jobs that run are there
    #[arg(long, value_name = "S", value_delimiter = ',', value_parser = not_negative, allow_negative_numbers = true)]
    pub offset: Vec<f64>,
    /// They meet on these nodes, in the order of those on which each was measured
    #[arg(long, value_name = "NODES", value_delimiter = ',', conflicts_with = "alone")]
    pub on: Vec<String>,
    /// Jobs of which one is to join: the better partner first
    #[arg(long = "with", value_name = "JOB", num_args = 1.., conflicts_with_all = ["alone", "offset"])]
    pub candidates: Vec<String>,
    /// Look at jobs that run for so many seconds at most, all together
    #[arg(long, default_value_t = 30.0, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub within: f64,
    /// Take my word that a program's seccomp filter allows what trimtab has it call, if the filter can't be read
    #[arg(long)]
    pub seccomp_ok: bool,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn not_negative(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
    if seconds.is_finite() && seconds >= 0.0 { Ok(seconds) } else { Err("must be 0 or more seconds".to_owned()) }
}
