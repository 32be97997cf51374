//! `cargo xtask bench`: figures worth keeping, taken interleaved with their baseline and kept with their machine.
//!
//! A machine drifts while one measures: the next run of the same program may be a tenth slower. So contenders take
//! turns, A B A B, and what is reported is the ratio pair by pair with its spread; times are printed for orientation.
//!
//! Next: `runner` for the turns and the arithmetic, `row` for bars and verdicts, `record` for the file, `window`,
//! `scripts` and `tree` for what is measured.

mod answer;
mod answers;
mod attach;
mod cluster;
mod contender;
mod corun;
mod debian;
mod forecast;
mod idle;
mod intervals;
mod large;
mod limits;
mod part;
mod pauses;
mod peers;
mod probe;
mod product;
mod real;
mod record;
mod recorded;
mod routines;
mod row;
mod runner;
mod scripts;
mod slurm;
mod tiny;
mod tree;
mod truth;
mod watch;
mod window;

use crate::{Outcome, shell};
use anyhow::{Context, Result, bail};
use attach::Bench;
use forecast::Recordings;
use part::Part;
pub use record::Record;
use std::path::{Path, PathBuf};

/// `cargo xtask bench [window|probe|tree|cluster|intervals|forecast] [--json FILE] [--quick] [--only PART] [--leaves N] [--program NAME]...
/// [--series FOLDER] [--jobs FILE]...`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    let options = parse(arguments)?;
    let root = shell::root()?;
    if cfg!(debug_assertions) {
        // This program's own work per sample would weigh on the figures: measure from an optimised build.
        let mut release = shell::cargo(&root, &["run", "--quiet", "--release", "--package", "xtask", "--", "bench"]);
        release.current_dir(std::env::current_dir().context("the current folder is gone")?);
        return shell::run(release.args(arguments)).map(|()| Outcome::Done);
    }
    build(&root, &options)?;
    let Options { quick, programs, before, recordings, .. } = options.clone();
    let bench = Bench { folder: emptied_folder(&root)?, root, quick, programs, before };
    let mut record = Record::begin(options.name.word(), &bench.root)?;
    println!("{}", record.machine_line());
    match options.name {
        Name::Window => window::run(&bench, options.only, &mut record)?,
        Name::Probe => scripts::run(&bench, options.only, &mut record)?,
        Name::Tree => tree::run(&bench, options.only, options.leaves, &mut record)?,
        Name::Cluster => cluster::run(&bench, options.only, &mut record)?,
        Name::Intervals => intervals::run(&bench, options.only, &mut record)?,
        Name::Forecast => forecast::run(&bench, &recordings, options.only, &mut record)?,
    }
    println!("\n{}", record.summary());
    // A part of the rows, or of the rounds, is no result that others compare with.
    let is_part = options.quick || options.only.is_some() || options.leaves.is_some();
    let folder = if is_part { "target/results" } else { "benches/results" };
    let path = options.json.unwrap_or_else(|| bench.root.join(folder).join(record.file_name()));
    record.write(&path)?;
    println!("written: {}", shell::relative(&bench.root, &path));
    Ok(Outcome::Done)
}

/// Builds what is measured, optimised.
fn build(root: &Path, options: &Options) -> Result<()> {
    let examples: &[(&str, &str)] = match options.name {
        Name::Window => &[("trimtab-session", "probe_cost")],
        // The parts about large programs are the only ones that need any.
        Name::Probe if options.only.is_none_or(|only| only == Part::Large) => {
            &[("trimtab-session", "plan_all"), ("trimtab-session", "insert_many")]
        }
        Name::Forecast if options.only.is_none_or(|only| only == Part::Answers) => &[("trimtab-controller", "answers")],
        Name::Probe | Name::Cluster | Name::Intervals | Name::Forecast => &[],
        Name::Tree => &[("trimtab-link", "tree"), ("trimtab-sim", "sim")],
    };
    if options.name != Name::Tree && options.only != Some(Part::Cut) {
        shell::run(&mut shell::cargo(root, &["build", "--release", "--package", "trimtab"]))?;
    }
    for (package, example) in examples {
        shell::run(&mut shell::cargo(root, &["build", "--release", "--package", package, "--example", example]))?;
    }
    Ok(())
}

/// A folder for reports and caches in which nothing of an earlier run lies.
fn emptied_folder(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/bench");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot empty target/bench")?;
    }
    std::fs::create_dir_all(&folder).context("cannot create target/bench")?;
    Ok(folder)
}

/// The benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// Measuring windows.
    Window,
    /// Scripts of probes, beside other tools.
    Probe,
    /// The tree of nodes, beside a bare one.
    Tree,
    /// Jobs and nodes.
    Cluster,
    /// How often intervals hold the whole run.
    Intervals,
    /// Forecasts beside what happened.
    Forecast,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    name: Name,
    json: Option<PathBuf>,
    quick: bool,
    only: Option<Part>,
    /// Of the tree only.
    leaves: Option<u32>,
    /// Programs that `truth`, `intervals` and `routines` are to measure; none: all.
    programs: Vec<String>,
    /// An earlier build of `probe_cost`, to compare a recorded call with.
    before: Option<PathBuf>,
    /// Recordings to forecast.
    recordings: Recordings,
}

impl Options {
    fn of(name: Name) -> Options {
        Options {
            name,
            json: None,
            quick: false,
            only: None,
            leaves: None,
            programs: vec![],
            before: None,
            recordings: Recordings::default(),
        }
    }
}

impl Name {
    fn word(self) -> &'static str {
        match self {
            Name::Window => "window",
            Name::Probe => "probe",
            Name::Tree => "tree",
            Name::Cluster => "cluster",
            Name::Intervals => "intervals",
            Name::Forecast => "forecast",
        }
    }

    /// Its parts, by the words that name them.
    fn parts(self) -> &'static [(&'static str, Part)] {
        match self {
            Name::Window => &[
                ("probe", Part::Probe),
                ("limits", Part::Limits),
                ("pauses", Part::Pauses),
                ("truth", Part::Truth),
                ("real", Part::Real),
                ("debian", Part::Debian),
            ],
            Name::Probe => {
                &[("cost", Part::Cost), ("peers", Part::Peers), ("idle", Part::Idle), ("large", Part::Large)]
            }
            Name::Tree => &[
                ("packet", Part::Packet),
                ("trips", Part::Trips),
                ("rest", Part::Rest),
                ("survive", Part::Survive),
                ("scale", Part::Scale),
            ],
            Name::Cluster => &[("slurm", Part::Slurm), ("watch", Part::Watch)],
            Name::Intervals => &[("cut", Part::Cut), ("live", Part::Live)],
            Name::Forecast => &[
                ("series", Part::Series),
                ("jobs", Part::Jobs),
                ("routines", Part::Routines),
                ("product", Part::Product),
                ("pairs", Part::Pairs),
                ("answers", Part::Answers),
            ],
        }
    }

    fn part(self, word: Option<&String>) -> Result<Part> {
        let found = self.parts().iter().find(|(name, _)| Some(*name) == word.map(String::as_str));
        let Some((_, part)) = found else {
            let names: Vec<&str> = self.parts().iter().map(|(name, _)| *name).collect();
            let got = word.map_or("nothing", String::as_str);
            bail!("--only of `bench {}` needs one of {}, got `{got}`", self.word(), names.join(", "));
        };
        Ok(*part)
    }
}

fn parse(arguments: &[String]) -> Result<Options> {
    let name = match arguments.first().map(String::as_str) {
        Some("probe") => Name::Probe,
        Some("tree") => Name::Tree,
        Some("cluster") => Name::Cluster,
        Some("intervals") => Name::Intervals,
        Some("forecast") => Name::Forecast,
        _ => Name::Window,
    };
    let mut options = Options::of(name);
    let mut words = arguments.iter().enumerate();
    while let Some((index, word)) = words.next() {
        match word.as_str() {
            "window" | "probe" | "tree" | "cluster" | "intervals" | "forecast" if index == 0 => {}
            "--quick" => options.quick = true,
            "--only" => options.only = Some(name.part(words.next().map(|(_, part)| part))?),
            "--program" if matches!(name, Name::Window | Name::Intervals | Name::Forecast) => match words.next() {
                Some((_, program)) => options.programs.push(program.clone()),
                None => bail!("--program needs the NAME of a specimen"),
            },
            "--before" if matches!(name, Name::Window | Name::Cluster) => match words.next() {
                Some((_, file)) => options.before = Some(file.into()),
                None => bail!(
                    "--before needs the FILE of an earlier build: of probe_cost for window, of trimtab for cluster"
                ),
            },
            "--series" if name == Name::Forecast => match words.next() {
                Some((_, folder)) => options.recordings.series = Some(folder.into()),
                None => bail!("--series needs the FOLDER of recorded series"),
            },
            "--jobs" if name == Name::Forecast => match words.next() {
                Some((_, file)) => options.recordings.logs.push(file.into()),
                None => bail!("--jobs needs the FILE of a log of jobs"),
            },
            "--json" => match words.next() {
                Some((_, file)) => options.json = Some(file.into()),
                None => bail!("--json needs a FILE"),
            },
            "--leaves" if name == Name::Tree => {
                let count = words.next().and_then(|(_, count)| count.replace('_', "").parse().ok());
                options.leaves = Some(count.context("--leaves needs a number")?);
            }
            unknown => bail!(
                "bench takes `window`, `probe`, `tree`, `cluster`, `intervals` or `forecast`, then --json FILE, --quick and --only PART, of \
                 `tree` --leaves N, and of `forecast` --series FOLDER and --jobs FILE, got `{unknown}`"
            ),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        for (name, text, json) in
            [("none", "", None), ("name", "window", None), ("file", "window --json a.json", Some("a.json"))]
        {
            let options = parse(&words(text)).expect(name);
            let json = json.map(PathBuf::from);
            assert_eq!(options, Options { json, ..Options::of(Name::Window) }, "{name}");
        }
        assert!(parse(&words("window --quick")).expect("quick").quick);
        assert_eq!(parse(&words("--only truth")).expect("a part").only, Some(Part::Truth));
        assert_eq!(parse(&words("--only probe")).expect("a part").only, Some(Part::Probe));
        let probe = Options { quick: true, only: Some(Part::Peers), ..Options::of(Name::Probe) };
        assert_eq!(parse(&words("probe --quick --only peers")).expect("another bench"), probe);
        assert_eq!(parse(&words("--program fft --program is")).expect("two").programs, ["fft", "is"]);
        let tree = parse(&words("tree --leaves 65_536 --only scale")).expect("another bench");
        assert_eq!((tree.name, tree.leaves, tree.only), (Name::Tree, Some(65_536), Some(Part::Scale)));
        let cluster = parse(&words("cluster --only watch")).expect("another bench");
        assert_eq!((cluster.name, cluster.only), (Name::Cluster, Some(Part::Watch)));
        let intervals = parse(&words("intervals --only cut --program ep")).expect("another bench");
        assert_eq!((intervals.name, intervals.only), (Name::Intervals, Some(Part::Cut)));
        let forecast = parse(&words("forecast --series s --jobs a --jobs b --only jobs")).expect("another bench");
        let logs = ["a", "b"].map(PathBuf::from).to_vec();
        assert_eq!(forecast.recordings, Recordings { series: Some("s".into()), logs });
        assert_eq!((forecast.name, forecast.only), (Name::Forecast, Some(Part::Jobs)));
        assert_eq!(parse(&words("--before a/b")).expect("a file").before, Some("a/b".into()));
        for (name, text) in [
            ("no file", "--json"),
            ("no earlier build", "--before"),
            ("no program", "--program"),
            ("unknown bench", "trees"),
            ("recordings of another bench", "tree --series s"),
            ("leaves of another bench", "probe --leaves 3"),
            ("no number of leaves", "tree --leaves many"),
            ("unknown part", "--only all"),
            ("a part of the other bench", "probe --only truth"),
            ("two benches", "window probe"),
        ] {
            assert!(parse(&words(text)).is_err(), "{name}");
        }
    }
}
