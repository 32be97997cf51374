//! The words of `model links`, `model pairs` and `forecast collective`.
//!
//! Next: `crate::links`, which carries them out.

use super::numbers::count;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use trimtab_controller::forecasts::loggp::Collective;

/// The options of `model links` and `model pairs`.
#[derive(Clone, Debug, Args)]
pub struct LinksOptions {
    /// Windows to look at: jobs or windows of the store, or files with a report's JSON; without any, the newest ones of the store
    #[arg(value_name = "WINDOW")]
    pub windows: Vec<String>,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The options of `forecast collective`.
#[derive(Clone, Debug, Args)]
pub struct CollectiveOptions {
    /// Which collective
    #[arg(value_name = "COLLECTIVE")]
    pub collective: CollectiveName,
    /// Ranks that take part
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub ranks: u64,
    /// Bytes of a block, as a rank names them in its call: of an alltoall those for one other rank; 64K and 1M are powers of 1024
    #[arg(long, value_name = "BYTES", value_parser = bytes, allow_negative_numbers = true, default_value = "0")]
    pub bytes: u64,
    /// On these hosts; without, on all that the windows know
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// By the MPI library with this in its name; without, by that of the newest window
    #[arg(long, value_name = "NAME")]
    pub mpi: Option<String>,
    /// By these windows: jobs or windows of the store, or files with a report's JSON; without, by the newest ones of the store
    #[arg(long = "by", value_name = "WINDOW", num_args = 1..)]
    pub windows: Vec<String>,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A collective by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum CollectiveName {
    /// `MPI_Barrier`
    Barrier,
    /// `MPI_Bcast`
    Bcast,
    /// `MPI_Allreduce`
    Allreduce,
    /// `MPI_Allgather`
    Allgather,
    /// `MPI_Alltoall`
    Alltoall,
}

impl From<CollectiveName> for Collective {
    fn from(name: CollectiveName) -> Self {
        match name {
            CollectiveName::Barrier => Collective::Barrier,
            CollectiveName::Bcast => Collective::Bcast,
            CollectiveName::Allreduce => Collective::Allreduce,
            CollectiveName::Allgather => Collective::Allgather,
            CollectiveName::Alltoall => Collective::Alltoall,
        }
    }
}

/// `4096`, `64K`, `1M`, `2GiB`.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is no number of bytes, such as 4096, 64K or 1M");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let rows = [("0", 0), ("4096", 4096), ("64K", 65_536), ("1M", 1_048_576), ("2GiB", 2 << 30), ("8b", 8)];
        for (text, expected) in rows {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "-1", "1.5M", "M", "1T", "NaN", "18446744073709551615K"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
