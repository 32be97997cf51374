//! The words of `model`, and of forecasts by size.
//!
//! Next: `crate::model`, which runs what they say.

use super::links::LinksOptions;
use super::numbers::{count, positive, whole};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Sizes of one parameter where a range says no number, alone
const COUNT_ALONE: usize = 10;
/// and beside other parameters.
const COUNT_BESIDE: usize = 5;
/// Sizes of one parameter at most.
const COUNT_MAX: usize = 1000;

/// The commands of `model`.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Run a routine or program at several sizes, and keep a model of its time and memory for hosts like this one
    ///
    /// docs/forecasts.md describes sizes, runs and terms.
    ///
    /// Exit codes: 0 a model of all sizes; 1 some sizes took too long, or sizes do not say the time; 2 an error, nothing was kept.
    Fit(ModelFitOptions),
    /// List models, with the hosts that they hold for
    List {
        /// Write JSON; `-` for standard output
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// List links between hosts, from messages that stored windows saw: o, L and G of LogGP by protocol, transfer and waiting, and the
    /// load of each host
    ///
    /// docs/links.md describes it.
    ///
    /// Exit codes: 0 all pairs of hosts are fitted; 1 some can't be, with the reason, or there are none; 2 an error.
    Links(LinksOptions),
    /// List programs beside each other, as stored windows saw them: who slows whom by how much, and which pairs get on best
    ///
    /// docs/forecasts.md describes it.
    ///
    /// Exit codes: 0 a slowdown is known; 1 none is; 2 an error.
    Pairs(LinksOptions),
    /// Have probes press on processors, cache and memory beside a job that runs, and keep how it is slowed and how much it presses
    /// itself: `trimtab forecast corun` then predicts it beside others before they meet
    ///
    /// Without a job, looks at how probes get on beside each other on this host, which comes first and wants a quiet host. Slows the
    /// job for as long as it takes. docs/forecasts.md describes it.
    ///
    /// Exit codes: 0 cache and memory are known; 1 one of them can't be, with the reason; 2 an error, or without --yes: nothing was
    /// kept.
    Pressure(PressureOptions),
    /// Show a model: terms, coefficients, range, errors, and a plot of what was measured
    Show {
        /// Its name
        name: String,
        /// Write JSON; `-` for standard output
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

/// The options of `model pressure`.
#[derive(Clone, Debug, Args)]
pub struct PressureOptions {
    /// The process id of a launcher or a rank, slurm:ID, or a job of the store that runs, all of it on this host
    pub job: Option<String>,
    /// The job's owner agrees that it is slowed
    #[arg(long, requires = "job")]
    pub yes: bool,
    /// Each window has so many seconds of iterations
    #[arg(long, default_value_t = 1.0, value_name = "S", value_parser = |text: &str| super::range::within::<f64>(text, 0.05..=60.0), allow_negative_numbers = true)]
    pub each: f64,
    /// All takes so many seconds at most
    #[arg(long, default_value_t = 90.0, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub within: f64,
    /// Take my word that the program's seccomp filter allows what trimtab has it call, if the filter can't be read
    #[arg(long)]
    pub seccomp_ok: bool,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The options of a probe.
#[derive(Clone, Debug, Args)]
pub struct PressProbeOptions {
    /// processor, cache or memory
    #[arg(long)]
    pub pressed: String,
    /// Share of its processor time in which it presses
    #[arg(long)]
    pub level: f64,
    /// Share of each processor that it wants
    #[arg(long)]
    pub wanted: f64,
    /// A thread on each of these
    #[arg(long, value_delimiter = ',', required = true)]
    pub processors: Vec<u32>,
    /// Memory of each thread
    #[arg(long)]
    pub bytes: u64,
    /// It ends after so many seconds
    #[arg(long)]
    pub seconds: f64,
}

/// The options of `model fit`.
#[derive(Clone, Debug, Args)]
pub struct ModelFitOptions {
    /// The name by which it is asked for
    pub name: String,
    /// The words that are run, with {n} in the place of each parameter's size, without a shell; {value} is another number in each
    /// repetition, for data of its own
    #[arg(long, value_name = "CMD")]
    pub run: String,
    /// Words that are run before each run and do not count, e.g. to make a file
    #[arg(long, value_name = "CMD")]
    pub setup: Option<String>,
    /// Sizes: n=100,200,400 or n=100..10000, evenly by ratio, with :COUNT or *FACTOR behind it; several parameters one after
    /// another
    #[arg(long, value_name = "n=...", num_args = 1.., required = true, value_parser = over)]
    pub over: Vec<Over>,
    /// Runs at each size
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub repeat: u64,
    /// One run takes at most so many seconds; larger sizes are then left out
    #[arg(long, default_value_t = 60.0, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub timeout: f64,
    /// All runs together take at most so many seconds
    #[arg(long, default_value_t = 300.0, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub within: f64,
    /// The order of runs is shuffled by this number
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub seed: u64,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The options of `forecast comp` and `forecast size`.
#[derive(Clone, Debug, Args)]
pub struct SizeForecastOptions {
    /// The model's name, as `trimtab model list` shows it
    pub name: String,
    /// The host [default: this one]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// The size of each parameter: n=4096 m=16
    #[arg(long, value_name = "n=SIZE", num_args = 1.., required = true, value_delimiter = ',', value_parser = argument)]
    pub args: Vec<(String, f64)>,
    /// Then run it here at these sizes, and note what came
    #[arg(long)]
    pub check: bool,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A parameter, and its sizes as they were typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Over {
    /// Its name.
    pub name: String,
    sizes: Sizes,
}

#[derive(Clone, Debug, PartialEq)]
enum Sizes {
    All(Vec<f64>),
    Range { least: f64, most: f64, count: Option<usize> },
    Steps { least: f64, most: f64, factor: f64 },
}

impl Over {
    /// The sizes, ascending; `is_alone`: there is no other parameter.
    pub fn sizes(&self, is_alone: bool) -> Vec<f64> {
        match &self.sizes {
            Sizes::All(sizes) => sizes.clone(),
            Sizes::Range { least, most, count } => {
                let count = count.unwrap_or(if is_alone { COUNT_ALONE } else { COUNT_BESIDE });
                by_ratio(*least, *most, count)
            }
            Sizes::Steps { least, most, factor } => {
                let all = std::iter::successors(Some(*least), |size| Some(size * factor));
                all.take_while(|size| *size <= most * (1.0 + 1e-9)).take(COUNT_MAX).collect()
            }
        }
    }
}

fn by_ratio(least: f64, most: f64, count: usize) -> Vec<f64> {
    let is_whole = least.fract() == 0.0 && most.fract() == 0.0;
    let step = (most / least).ln() / (count.max(2) - 1) as f64;
    let size = |place: usize| least * (step * place as f64).exp();
    let mut sizes: Vec<f64> = (0..count).map(size).map(|size| if is_whole { size.round() } else { size }).collect();
    sizes.dedup();
    sizes
}

fn over(text: &str) -> Result<Over, String> {
    let (name, sizes) = text.split_once('=').ok_or("give NAME=SIZES, e.g. n=100..10000 or n=100,200,400")?;
    Ok(Over { name: parameter(name)?, sizes: sizes_of(sizes)? })
}

fn sizes_of(text: &str) -> Result<Sizes, String> {
    let Some((least, rest)) = text.split_once("..") else {
        let mut sizes = text.split(',').map(size).collect::<Result<Vec<f64>, String>>()?;
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        return Ok(Sizes::All(sizes));
    };
    let least = size(least)?;
    let above = |most: f64| {
        if most > least { Ok(most) } else { Err(format!("{least}..{most}: the second size must be above the first")) }
    };
    if let Some((most, factor)) = rest.split_once('*') {
        let factor = size(factor)?;
        let most = above(size(most)?)?;
        return if factor > 1.0 {
            Ok(Sizes::Steps { least, most, factor })
        } else {
            Err("a factor is above 1".to_owned())
        };
    }
    let (most, count) = match rest.split_once(':') {
        Some((most, count)) => (most, Some(count)),
        None => (rest, None),
    };
    let number = |text: &str| text.parse().ok().filter(|count| (2..=COUNT_MAX).contains(count));
    let count = count.map(|text| number(text).ok_or(format!("{text:?} is no number of sizes from 2 to {COUNT_MAX}")));
    Ok(Sizes::Range { least, most: above(size(most)?)?, count: count.transpose()? })
}

fn argument(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("give NAME=SIZE, e.g. n=4096")?;
    Ok((parameter(name)?, size(value)?))
}

fn parameter(name: &str) -> Result<String, String> {
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && name != "value";
    if is_name { Ok(name.to_owned()) } else { Err(format!("{name:?} is no name of a parameter: letters and digits")) }
}

fn size(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("{text:?} is no size: give a number above zero, without a unit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_lists_ranges_or_steps() {
        for (text, sizes) in [
            ("n=4,2,8,2", &[2.0, 4.0, 8.0][..]),
            ("n=100..10000:3", &[100.0, 1000.0, 10000.0]),
            ("n=1..16*2", &[1.0, 2.0, 4.0, 8.0, 16.0]),
            ("n=1e3..8e3*2", &[1000.0, 2000.0, 4000.0, 8000.0]),
            ("n=0.5..2:3", &[0.5, 1.0, 2.0]),
        ] {
            let found = over(text).expect(text).sizes(true);
            assert!(found.len() == sizes.len(), "{text}: {found:?}");
            assert!(
                found.iter().zip(sizes).all(|(found, size)| (found / size - 1.0).abs() < 1e-9),
                "{text}: {found:?}"
            );
        }
        assert_eq!(over("n=100..10000").unwrap().sizes(true).len(), COUNT_ALONE);
        assert_eq!(over("n=100..10000").unwrap().sizes(false).len(), COUNT_BESIDE);
    }

    #[test]
    fn sizes_that_can_not_be_are_refused() {
        for (text, said) in [
            ("n", "NAME=SIZES"),
            ("n=", "is no size"),
            ("n=4k", "without a unit"),
            ("n=-4..8", "is no size"),
            ("n=nan", "is no size"),
            ("n=8..4", "must be above"),
            ("n=4..8*1", "above 1"),
            ("n=4..8:1", "number of sizes"),
            ("2n=4..8", "no name of a parameter"),
            ("value=4..8", "no name of a parameter"),
        ] {
            assert!(over(text).unwrap_err().contains(said), "{text}");
        }
        assert!(argument("n=4096B").is_err() && argument("n").is_err());
        assert_eq!(argument("n=4096"), Ok(("n".to_owned(), 4096.0)));
    }
}
