//! The words of forecasts of data and routines on hosts and links.
//!
//! Next: `crate::grid`, which answers.

use super::numbers::positive;
use super::site::SiteOptions;
use clap::Args;
use std::path::PathBuf;
use trimtab_controller::forecasts::grid::Data;

/// Where facts of hosts and links come from, and where the answer goes.
#[derive(Clone, Debug, Args)]
pub struct GridOptions {
    /// Hosts and links as files say them: JSON of `trimtab weather --json`, or a file as docs/forecasts.md describes; else the
    /// site's agents are asked, and without a site what `trimtab weather` stored here
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub weather: Vec<PathBuf>,
    /// The host that weather calls by an address, as n2=10.0.0.2
    #[arg(long, value_name = "HOST=ADDRESS", num_args = 1.., value_parser = alias)]
    pub alias: Vec<(String, String)>,
    /// Figures older than so many seconds are refused
    #[arg(long, default_value_t = 600.0, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub age: f64,
    /// The site.
    #[command(flatten)]
    pub site: SiteOptions,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The options of `forecast comm`.
#[derive(Clone, Debug, Args)]
pub struct CommOptions {
    /// The data with their host: A=dense:double:4096x4096@n1, or sparse:TYPE:ROWSxCOLUMNS:ENTRIES, vector:TYPE:LENGTH, bytes:10MB;
    /// several are sent at the same time
    #[arg(long, value_name = "NAME=DATA@HOST", num_args = 1.., required = true, value_parser = placed)]
    pub data: Vec<(String, Data)>,
    /// The host that gets them
    #[arg(long, value_name = "HOST")]
    pub to: String,
    /// Each host sends and receives one after another, not all at the same time
    #[arg(long)]
    pub in_turn: bool,
    /// Facts.
    #[command(flatten)]
    pub grid: GridOptions,
}

/// A routine with its data.
#[derive(Clone, Debug, Args)]
pub struct WorkOptions {
    /// The model's name, as `trimtab model list` shows it
    pub name: String,
    /// The size of each parameter: n=4096, or from data: n=A.rows
    #[arg(long, value_name = "n=SIZE", num_args = 1.., value_delimiter = ',', value_parser = argument)]
    pub args: Vec<(String, String)>,
    /// Data that it needs, with their host: A=dense:double:4096x4096@n1
    #[arg(long, value_name = "NAME=DATA@HOST", num_args = 1.., value_parser = placed)]
    pub data: Vec<(String, Data)>,
    /// Data that it makes, with the host that gets them: C=dense:double:4096x4096@n1
    #[arg(long, value_name = "NAME=DATA@HOST", num_args = 1.., value_parser = placed)]
    pub result: Vec<(String, Data)>,
    /// Each host sends and receives one after another, not all at the same time
    #[arg(long)]
    pub in_turn: bool,
    /// Facts.
    #[command(flatten)]
    pub grid: GridOptions,
}

/// The options of `forecast total`.
#[derive(Clone, Debug, Args)]
pub struct TotalOptions {
    /// The host on which it runs
    #[arg(long, value_name = "HOST")]
    pub host: String,
    /// The routine.
    #[command(flatten)]
    pub work: WorkOptions,
}

/// The options of `forecast place`.
#[derive(Clone, Debug, Args)]
pub struct PlaceOptions {
    /// Only these hosts, with commas between them [default: all that are known]
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    pub on: Vec<String>,
    /// The routine.
    #[command(flatten)]
    pub work: WorkOptions,
}

/// The options of `forecast plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanOptions {
    /// A plan in JSON, as docs/forecasts.md describes; `-` for standard input
    pub plan: PathBuf,
    /// Facts.
    #[command(flatten)]
    pub grid: GridOptions,
}

fn placed(text: &str) -> Result<(String, Data), String> {
    let (name, data) = Data::parse_named(text).map_err(|error| error.to_string())?;
    match data.place {
        Some(_) => Ok((name, data)),
        None => Err(format!("{text:?} has no place: write @HOST behind it")),
    }
}

fn argument(text: &str) -> Result<(String, String), String> {
    let (name, size) = text.split_once('=').ok_or("give NAME=SIZE, e.g. n=4096 or n=A.rows")?;
    Ok((name.to_owned(), size.to_owned()))
}

fn alias(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((host, address)) if !host.is_empty() && !address.is_empty() => Ok((host.to_owned(), address.to_owned())),
        _ => Err("give HOST=ADDRESS, e.g. n2=10.0.0.2".to_owned()),
    }
}
