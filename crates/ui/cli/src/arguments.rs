//! The words that can be typed: one definition yields parser, help and completions.
//!
//! Next: `window` turns [`WindowOptions`] into a measurement.

mod corun;
mod dash;
pub mod grid;
mod limit;
pub mod links;
pub mod model;
mod numbers;
mod range;
pub mod site;

use clap::{Args, Parser, Subcommand};
pub use corun::CorunOptions;
pub use dash::without_dashes;
use grid::{CommOptions, PlaceOptions, PlanOptions, TotalOptions};
use links::CollectiveOptions;
use model::{ModelCommand, PressProbeOptions, SizeForecastOptions};
use numbers::{count, positive, whole};
use range::within;
use site::{AgentOptions, ControllerOptions, DoctorOptions, KeptOptions, SiteCommand, SiteOptions};
use std::net::SocketAddr;
use std::path::PathBuf;
use trimtab_engine::own::LAST_ACT;
use trimtab_engine::{COUNTED_EVENTS, Condition, CountedEvent, DETAIL_RANKS_MAX, LoopName, SlurmId, When};
use trimtab_types::report::{Assumption, Event};

/// Measure a running MPI program for a few iterations, and leave no trace.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done; 1 the result is partial, invalid or empty; 2 an error, nothing was changed."
)]
pub struct Arguments {
    /// Where jobs and windows are kept [default: $XDG_DATA_HOME/trimtab/trimtab.db; of a controller: site.db in
    /// $STATE_DIRECTORY or $XDG_STATE_HOME/trimtab]
    #[arg(long, global = true, value_name = "PATH")]
    pub store: Option<PathBuf>,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Launch a program, measure one window, report, and let the program go on to its end
    Run {
        /// How to measure.
        #[command(flatten)]
        options: WindowOptions,
        /// How it begins.
        #[command(flatten)]
        hold: HoldOptions,
        /// Launcher, program and their arguments, e.g. `mpirun -n 2 ./app`
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Measure one window of a job that runs
    Attach {
        /// How to measure.
        #[command(flatten)]
        options: WindowOptions,
        /// When to measure.
        #[command(flatten)]
        events: EventOptions,
        /// Process id of mpirun, mpiexec or srun, or of any one rank
        #[arg(required_unless_present = "slurm", value_parser = process_id)]
        pid: Option<i32>,
        /// Through whom.
        #[command(flatten)]
        site: SiteOptions,
        /// Or a job of Slurm, on all of its nodes: an agent is started on each inside of the job
        #[arg(long, value_name = "JOB[_TASK][.STEP]", conflicts_with = "pid")]
        slurm: Option<SlurmId>,
        /// Wait at most so many seconds until all ranks are there
        #[arg(long, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
        wait: Option<f64>,
        /// Measure from the first call: ranks that are yet to come out of MPI_Init wait there until all are measured, at most so
        /// many seconds, also those that a package or the plug-in for Slurm has seen to. The window is by time
        #[arg(long, value_name = "SECONDS", value_parser = |text: &str| within::<u64>(text, 1..=600),
              conflicts_with_all = ["mark", "main_loop", "start", "when", "windows"])]
        hold: Option<u64>,
        /// Others see to it that ranks wait: agents hold none before they are asked for
        #[arg(long, hide = true, requires = "hold")]
        held: bool,
    },
    /// Have a process wait where it comes out of MPI_Init until `trimtab attach --hold` measures it (started by packages and
    /// by the plug-in for Slurm)
    #[command(hide = true)]
    Hold {
        /// The process, which may execute another program first
        #[arg(value_parser = process_id)]
        pid: i32,
        /// How long it waits at most
        #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = |text: &str| within::<u64>(text, 1..=600))]
        seconds: u64,
        /// Write an empty line on standard output once the process is looked at: from then on it may begin MPI
        #[arg(long)]
        tell: bool,
    },
    /// Serve a lead on another node (started by `trimtab attach --slurm`), or a site's controller for good
    Agent(AgentOptions),
    /// Stand beside an agent and take out what it leaves if it is killed (started by agents)
    #[command(hide = true)]
    Guard,
    /// Lead a window for the site's controller, through standard input and output (started by the controller)
    #[command(hide = true)]
    Lead,
    /// Press on a resource until the input ends or the time is over (started by `trimtab model pressure`)
    #[command(hide = true)]
    PressProbe(PressProbeOptions),
    /// Run the site's service, which standing agents call and `--controller` asks
    Controller(ControllerOptions),
    /// Show which agents are connected to whom, how far they are, and what they have survived
    Tree {
        /// Which site.
        #[command(flatten)]
        site: SiteOptions,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a site's authority and issue identities; accept schedulers that may have your jobs measured
    #[command(subcommand)]
    Site(SiteCommand),
    /// Look at this node: what trimtab can do here, what is missing, and how to mend it
    ///
    /// Exit codes: 0 all there; 1 something is missing for some uses; 2 nothing can be measured here.
    Doctor(DoctorOptions),
    /// Make one file that carries a program and trimtab: run in place of the program, it measures one window
    Pack {
        /// An executable
        program: PathBuf,
        /// The file to make
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Options of `trimtab attach` for its window
        #[arg(last = true, allow_hyphen_values = true, value_name = "OPTIONS")]
        options: Vec<String>,
    },
    /// Measure every start of a program from now on, one window each
    #[command(
        mut_arg("json", |json| json.help("Append one JSON object per start; `-` for standard output")),
        mut_arg("html", |html| html.hide(true)),
        mut_arg("dry_run", |dry_run| dry_run.hide(true))
    )]
    Watch {
        /// For what to watch.
        #[command(flatten)]
        wanted: WatchOptions,
        /// How to measure.
        #[command(flatten)]
        options: WindowOptions,
    },
    /// Measure another window of a job already known
    Measure {
        /// How to measure.
        #[command(flatten)]
        options: WindowOptions,
        /// Through whom.
        #[command(flatten)]
        site: SiteOptions,
        /// When to measure.
        #[command(flatten)]
        events: EventOptions,
        /// Job id as `trimtab list` shows it
        job: String,
    },
    /// Have a window measured now by a trimtab that waits for it with --when
    Trigger {
        /// Job id as `trimtab list` shows it, pid of its launcher or a rank, or Slurm's id
        job: String,
        /// Kept with the window, as what called
        #[arg(default_value = "")]
        name: String,
        /// The site that is called.
        #[command(flatten)]
        site: KeptOptions,
    },
    /// Show jobs and their windows in the store
    List {
        /// Which store.
        #[command(flatten)]
        site: KeptOptions,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a stored window again
    Report {
        /// JOB, or JOB/WINDOW [default: the newest window]
        #[arg(value_name = "JOB[/WINDOW]")]
        window: Option<String>,
        /// Which store.
        #[command(flatten)]
        site: KeptOptions,
        /// Print JSON
        #[arg(long, conflicts_with = "html")]
        json: bool,
        /// Write one self-contained page
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// Show whole paths: by which the program comes to the call that counts iterations, and to its communication
        #[arg(long)]
        path: bool,
        /// Further windows, with --scaling
        #[arg(value_name = "WINDOW", requires = "scaling")]
        others: Vec<String>,
        /// Put windows of one program on several numbers of ranks beside each other: speed-up, efficiency, and what keeps it from
        /// scaling. WINDOW is JOB, JOB/NUMBER or a report's JSON file; =weak: each rank's work stays
        #[arg(long, value_name = "strong|weak", num_args = 0..=1, require_equals = true, default_missing_value = "strong", conflicts_with_all = ["html", "path", "compare", "controller"], requires = "window", value_enum)]
        scaling: Option<WorkWord>,
        /// Put two windows of JOB beside each other: time per iteration, communication, who came and left
        #[arg(long, num_args = 2, value_names = ["WINDOW", "WINDOW"], conflicts_with_all = ["html", "controller"], requires = "window", value_parser = whole::<u32>, allow_negative_numbers = true)]
        compare: Option<Vec<u32>>,
    },
    /// List functions that could be measured, and those that could not, with the reason
    Functions {
        /// Any process; of mpirun, mpiexec or srun, its ranks
        #[arg(value_parser = process_id)]
        pid: i32,
        /// Look into the process itself, also if it is a launcher
        #[arg(long)]
        process: bool,
        /// Names to show: NAME[@LIB] with * and ?
        #[arg(default_value = "MPI_*")]
        pattern: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the points of functions (entry, exits, calls, loops, blocks, lines): how each is patched, or why it can't be
    ///
    /// A listed point can be pasted into a script of probes. docs/points.md describes the columns and the JSON.
    Points {
        /// The points to list.
        #[command(flatten)]
        options: PointsOptions,
        /// Functions to look at: NAME[@LIB] with * and ?, fn_0xADDRESS, or 0xADDRESS
        pattern: String,
        /// A process, a job in the store that still runs, or a program or library that need not run
        #[arg(value_name = "PID|JOB|FILE")]
        target: String,
    },
    /// Show the nest of the program's loops that run now, how often each is passed, and which one an iteration is a pass of
    ///
    /// Looks at the stacks of all ranks some times, then counts passes for 2 s or longer. docs/loops.md describes it.
    ///
    /// Exit codes: 0 a loop is the main one; 1 none is, and it is said why; 2 an error, nothing was changed.
    Loops {
        /// How.
        #[command(flatten)]
        options: LoopsOptions,
        /// A process, of which the ranks of its job on this machine are meant, or a job in the store that still runs
        #[arg(value_name = "PID|JOB")]
        target: String,
    },
    /// Run a script of probes in a process, a job or a program: insert, collect, print, remove
    ///
    /// A script is a list like `entry MPI_Send { n++; bytes = hist($count * sizeof($datatype)) }`; docs/probe-language.md
    /// describes it.
    Probe {
        /// How to run it.
        #[command(flatten)]
        options: ProbeOptions,
        /// The script (unless --file), then the process id or job to probe
        #[arg(value_name = "SCRIPT PID|JOB")]
        words: Vec<String>,
        /// Or a program to launch, with its arguments
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Show what a script would do: places, bytes before and after, the code that would run; changes nothing
    ///
    /// For a file that need not run, addresses are those of the file. docs/explain.md describes the output.
    Explain {
        /// The script's permissions.
        #[command(flatten)]
        script: ScriptArguments,
        /// The parts that are shown.
        #[command(flatten)]
        options: ExplainOptions,
        /// The script (unless --file), then a process, a job in the store that still runs, or a program or library
        #[arg(required = true, value_name = "SCRIPT PID|JOB|FILE")]
        words: Vec<String>,
    },
    /// Take out whatever a killed trimtab left in all ranks of a job, or in one process
    Undo {
        /// Process id of mpirun, mpiexec, srun or any rank for all ranks of the job, or of any other process
        #[arg(required_unless_present = "slurm", value_parser = process_id)]
        pid: Option<i32>,
        /// Or a job of Slurm, on all of its nodes
        #[arg(long, value_name = "JOB[_TASK][.STEP]", conflicts_with = "pid")]
        slurm: Option<SlurmId>,
        /// Only this process, not the other ranks of its job
        #[arg(long, requires = "pid")]
        process: bool,
        /// Take my word that the program's seccomp filter allows what trimtab has it call, if the filter can't be read
        #[arg(long)]
        seccomp_ok: bool,
    },
    /// Take out what this very process put into others before it ran out of memory or aborted, and executed itself anew
    #[command(name = LAST_ACT, hide = true)]
    LastAct {
        /// Why: memory or abort
        why: String,
        /// The processes
        pids: Vec<i32>,
    },
    /// Models of how long routines take and how much memory, by the sizes of their data
    #[command(subcommand)]
    Model(ModelCommand),
    /// Show what a new process would get here, or on a host of the site: the share of a processor, memory, I/O, network; now and
    /// soon
    ///
    /// Looks at the kernel's counters for a second, and computes for at most 30 ms to check what they say. docs/weather.md
    /// describes the output.
    ///
    /// Exit codes: 0 all is there; 1 the share of a processor, the memory or the network could not be found; 2 an error.
    Weather(WeatherOptions),
    /// Forecast what is asked of a scheduler: when a job ends, how long a routine takes, how much memory
    #[command(subcommand)]
    Forecast(ForecastCommand),
    /// Without options, every forecast ever made against what happened, and the error by method; or a recorded series or a log of
    /// jobs, each value forecast from those before it, with how far each forecaster was off
    Backtest(BacktestOptions),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The options of `watch`.
#[derive(Clone, Debug, Args)]
pub struct WatchOptions {
    /// File name of the program, or its whole path; with * and ?
    #[arg(long, value_name = "GLOB")]
    pub name: String,
    /// Only a program with this checksum, as sha256sum prints it
    #[arg(long, value_name = "HEX")]
    pub sha256: Option<String>,
    /// End after so many starts
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub count: Option<u64>,
    /// End after this many seconds [default: at Ctrl-C]
    #[arg(long = "for", value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub seconds: Option<f64>,
    /// Keep each program still from its exec on until its symbols are read, at most this many milliseconds; with --follow it
    /// also waits where it comes out of MPI_Init until it is measured, at most as long in whole seconds [default with
    /// --follow: 200, and 10 s there]
    #[arg(long, value_name = "MS", value_parser = |text: &str| within(text, 1_u64..=60_000), allow_negative_numbers = true)]
    pub hold: Option<u64>,
    /// With --follow, nobody waits where it comes out of MPI_Init: the window begins later, and the report says so
    #[arg(long, conflicts_with = "hold")]
    pub no_hold: bool,
}

/// The kinds of forecasts.
#[derive(Debug, Subcommand)]
pub enum ForecastCommand {
    /// When a running job ends: an interval, and how it was derived
    ///
    /// Measures a window of it, and another one where the first leaves much open. docs/forecasts.md describes it.
    ///
    /// Exit codes: 0 an end is expected; 1 only the latest one is known, or none is claimed; 2 an error.
    Job(JobForecastOptions),
    /// How long a routine takes at given sizes on a host, by its model
    ///
    /// Exit codes: 0 a time is said; 1 the sizes do not say it; 2 an error.
    Comp(SizeForecastOptions),
    /// How much memory a routine needs at given sizes, by its model
    ///
    /// Exit codes: 0 an amount is said; 1 none can be; 2 an error.
    Size(SizeForecastOptions),
    /// How long data take from where they are to a host, by measured links, directly or by other hosts
    ///
    /// docs/forecasts.md describes data, links and the answer.
    ///
    /// Exit codes: 0 a time is said; 1 it is impossible, with the reason; 2 an error.
    Comm(CommOptions),
    /// How long a routine takes on a host with its data brought there, and its results sent on
    ///
    /// Exit codes: 0 a time is said; 1 it is impossible, or sizes do not say the time; 2 an error.
    Total(TotalOptions),
    /// On which host a routine ends first, its data brought there: all hosts ranked, with the reason where it is impossible
    ///
    /// Exit codes: 0 a host is chosen; 1 no host has a time; 2 an error.
    Place(PlaceOptions),
    /// Which alternative of a plan ends first: routines on hosts, data and transfers from a file
    ///
    /// docs/forecasts.md describes the file.
    ///
    /// Exit codes: 0 one is chosen; 1 none has a time; 2 an error.
    Plan(PlanOptions),
    /// When Slurm would start a job that is submitted now, from the waits of the site's own past
    ///
    /// Asks `sacct` for the jobs of the last days, or reads a log of jobs. docs/forecasts.md describes it.
    ///
    /// Exit codes: 0 an interval; 1 nothing is claimed, with the reason; 2 an error.
    Queue(QueueForecastOptions),
    /// How much slower each of several jobs is beside the others, and who ends when; or with --with who is the better partner
    ///
    /// Jobs that run are measured together; from windows of them alone it is predicted before they meet. docs/forecasts.md
    /// describes it.
    ///
    /// Exit codes: 0 all is said; 1 some slowdown or end is not known, with the reason; 2 an error.
    Corun(CorunOptions),
    /// How long a collective takes: how long does an alltoall of 1 MB on 16 ranks take here?
    ///
    /// From stored windows: of such collectives where they saw some, else added up from the times of messages between these
    /// hosts. docs/links.md describes it.
    ///
    /// Exit codes: 0 a time is said; 1 a time beyond the sizes that were seen; 2 an error, or nothing is known.
    Collective(CollectiveOptions),
}

/// The options of `forecast queue`.
#[derive(Clone, Debug, Args)]
pub struct QueueForecastOptions {
    /// The job is to have so many nodes
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true, required_unless_present = "processors")]
    pub nodes: Option<u64>,
    /// The job is to have so many processors, where the log counts these
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true, conflicts_with = "nodes", requires = "jobs")]
    pub processors: Option<u64>,
    /// Its time limit: 90m, 2h, 1d, or as Slurm's HH:MM:SS and D-HH:MM:SS
    #[arg(long, value_name = "TIME", value_parser = limit::seconds, allow_negative_numbers = true)]
    pub time: u64,
    /// Its partition or queue [default: Slurm's own, or the only one there is]
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Its quality of service [default: the one with most jobs of that partition]
    #[arg(long, value_name = "NAME", requires = "partition")]
    pub qos: Option<String>,
    /// Its owner; waits of their jobs count more [default: with Slurm, you]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Days of Slurm's accounts that are asked for
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = |text: &str| within(text, 1_u32..=3650), allow_negative_numbers = true)]
    pub days: u32,
    /// Not Slurm's accounts but a log of jobs, as of its last moment: Standard Workload Format, `sacct --parsable2`, or a CSV with
    /// named columns; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "days")]
    pub jobs: Option<PathBuf>,
    /// Leave out lines of the log that are damaged or that cannot be, and count them
    #[arg(long, requires = "jobs")]
    pub leave_out_wrong: bool,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The options of `forecast job`.
#[derive(Clone, Debug, Args)]
pub struct JobForecastOptions {
    /// Process id of mpirun, mpiexec, srun or any rank, or a job in the store that still runs
    #[arg(value_name = "PID|JOB", required_unless_present = "slurm")]
    pub job: Option<String>,
    /// Or a job of Slurm, on all of its nodes
    #[arg(long, value_name = "JOB[_TASK][.STEP]", conflicts_with = "job")]
    pub slurm: Option<SlurmId>,
    /// Measure nothing if the job's newest stored window ended at most so many seconds ago
    #[arg(long, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub newest: Option<f64>,
    /// Look at the job for so many seconds at most
    #[arg(long, default_value_t = 30.0, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub within: f64,
    /// Stay until the job has ended, and note when: the forecast can then be judged to the second
    #[arg(long)]
    pub until_end: bool,
    /// Take my word that the program's seccomp filter allows what trimtab has it call, if the filter can't be read
    #[arg(long)]
    pub seccomp_ok: bool,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The options of `weather`.
#[derive(Clone, Debug, Args)]
pub struct WeatherOptions {
    /// The nice level of the new process
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = |text: &str| within(text, -20_i32..=19), allow_negative_numbers = true)]
    pub nice: i32,
    /// Of a host of the site, as its standing agent senses it all the time
    #[arg(long, value_name = "HOST", conflicts_with_all = ["pid", "seconds", "no_probe", "answer", "secret", "bytes"])]
    pub host: Option<String>,
    /// Also latency and bandwidth to somebody who answers there (`trimtab weather --answer`); with --host, to another host of the
    /// site
    #[arg(long, value_name = "HOST[:PORT]")]
    pub to: Option<String>,
    /// The site.
    #[command(flatten)]
    pub site: SiteOptions,
    /// A file with the secret of whoever answers
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// Bytes that may be sent to find a bandwidth
    #[arg(long, default_value_t = 8 << 20, value_name = "N", value_parser = |text: &str| within(text, 1_000_u64..=1_000_000_000), requires = "to", allow_negative_numbers = true)]
    pub bytes: u64,
    /// In the place of this process: its control group, session and processors. Figures of that place are not stored
    #[arg(long, value_name = "PID", value_parser = process_id)]
    pub pid: Option<i32>,
    /// Look for so many seconds, and keep a value each second: a forecast needs three, an interval twelve
    #[arg(long = "for", default_value_t = 1, value_name = "S", value_parser = |text: &str| within(text, 1_u32..=86_400), allow_negative_numbers = true)]
    pub seconds: u32,
    /// Compute nothing: only what the kernel counts anyway
    #[arg(long)]
    pub no_probe: bool,
    /// Answer those who ask from other hosts, until Ctrl-C or the end of --for, and print the secret they need
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "0.0.0.0:0",
          conflicts_with_all = ["nice", "to", "bytes", "pid", "no_probe", "json"])]
    pub answer: Option<SocketAddr>,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The options of `backtest`.
#[derive(Clone, Debug, Args)]
pub struct BacktestOptions {
    /// A file of lines `timestamp,value`; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "jobs")]
    pub series: Option<PathBuf>,
    /// A log of jobs, whose run times are forecast: Standard Workload Format, `sacct --parsable2`, or a CSV with named columns;
    /// `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub jobs: Option<PathBuf>,
    /// Leave out lines of the log that are damaged or that cannot be, and count them
    #[arg(long, requires = "jobs")]
    pub leave_out_wrong: bool,
    /// Judge only the later part: `half`, or from a share of the values or jobs on, e.g. 0.7 or 70%; all of them teach
    #[arg(long, value_name = "HALF", value_parser = later_part)]
    pub from: Option<f64>,
    /// Write JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The options of `explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainOptions {
    /// Also the routines that bodies share, disassembled; with --json always
    #[arg(long)]
    pub routines: bool,
    /// Writes and pieces of code to show at most; 0 for all [default: 100; with --json all]
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true, conflicts_with = "json")]
    pub limit: Option<usize>,
    /// Look into the process itself, also if it is a launcher
    #[arg(long)]
    pub process: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How `loops` looks.
#[derive(Clone, Debug, Args)]
pub struct LoopsOptions {
    /// Looks at the stack of each rank
    #[arg(long, default_value_t = 40, value_name = "N", value_parser = |text: &str| within(text, 1_u32..=10_000), allow_negative_numbers = true)]
    pub samples: u32,
    /// A third of so many seconds may pass until a loop has been passed three times
    #[arg(long, default_value_t = 60.0, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub max_seconds: f64,
    /// Look into the process itself, not into the ranks of its job
    #[arg(long)]
    pub process: bool,
    /// Take my word that the program's seccomp filter allows what trimtab has it call, if the filter can't be read
    #[arg(long)]
    pub seccomp_ok: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The options of `points`.
#[derive(Clone, Debug, Args)]
pub struct PointsOptions {
    /// Only points of these kinds
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND")]
    pub kind: Vec<KindName>,
    /// Only points that can't be probed
    #[arg(long)]
    pub refused: bool,
    /// Only how many there are
    #[arg(long)]
    pub summary: bool,
    /// Look into the process itself, also if it is a launcher
    #[arg(long)]
    pub process: bool,
    /// Points to show at most; 0 for all [default: 1000; with --json all]
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub limit: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How the work changes with the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WorkWord {
    /// The work of all ranks together stays.
    Strong,
    /// The work of each rank stays.
    Weak,
}

impl From<WorkWord> for trimtab_types::scaling::Work {
    fn from(word: WorkWord) -> Self {
        match word {
            WorkWord::Strong => trimtab_types::scaling::Work::Strong,
            WorkWord::Weak => trimtab_types::scaling::Work::Weak,
        }
    }
}

/// Kinds of points by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KindName {
    /// Entries of functions
    Entry,
    /// Exits: returns, jumps to other functions
    Exit,
    /// Before and behind calls
    Call,
    /// Passes of loops, where they are entered and left
    Loop,
    /// Basic blocks
    Block,
    /// Source lines, where there is debugging information
    Line,
}

/// A script and what it may do.
#[derive(Clone, Debug, Args)]
pub struct ScriptArguments {
    /// Read the script from a file; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The script may assign to the program's variables and registers
    #[arg(long)]
    pub allow_write: bool,
    /// The script may call functions of the program
    #[arg(long)]
    pub allow_call: bool,
}

/// How to run a script.
#[derive(Clone, Debug, Args)]
pub struct ProbeOptions {
    /// The script.
    #[command(flatten)]
    pub script: ScriptArguments,
    /// Take the probes out after this many seconds [default: when the script says so, the program ends, or Ctrl-C]
    #[arg(long = "for", value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub seconds: Option<f64>,
    /// Only these ranks: all, 0-3,7, host:NAME; joined by `,`, `&`, `except`
    #[arg(long, default_value = "all", value_name = "CONTEXT")]
    pub ranks: trimtab_types::context::Context,
    /// In place of a process id: a job of Slurm, on all of its nodes
    #[arg(long, value_name = "JOB[_TASK][.STEP]")]
    pub slurm: Option<SlurmId>,
    /// Probe only the process itself, not the ranks of its job
    #[arg(long, conflicts_with_all = ["slurm", "command"])]
    pub process: bool,
    /// Take my word that the program's seccomp filter allows what trimtab has it call, if the filter can't be read
    #[arg(long)]
    pub seccomp_ok: bool,
    /// Write the result as JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// How to measure one window.
#[derive(Clone, Debug, Args)]
pub struct WindowOptions {
    /// Ranks that are yet to come out of `MPI_Init` wait there, at most so many seconds.
    #[arg(skip)]
    pub first_call_s: Option<u64>,
    /// Agents on other machines hold ranks from their first look on.
    #[arg(skip)]
    pub agents_hold: bool,
    /// Iterations to record [default: as many as --at-least says]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub iterations: Option<u64>,
    /// Record as many iterations as fill so many seconds, 10 at least; not used with --iterations
    #[arg(long, default_value_t = 0.2, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub at_least: f64,
    /// Iterations to let pass first [default: just enough for all ranks to be ready]
    #[arg(long, value_name = "K", value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub start: Option<u64>,
    /// Measure only these ranks: all, 0-3,7, host:NAME; joined by `,`, `&`, `except`
    #[arg(long, default_value = "all", value_name = "CONTEXT")]
    pub ranks: trimtab_types::context::Context,
    /// The window ends after this many seconds at the latest, counted from when the probes are in: starting agents and
    /// reading symbols come before, restoring the ranks and fetching the results after
    #[arg(long, default_value_t = 60.0, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub max_seconds: f64,
    /// Marker that counts iterations: auto (`measuremark` if the program calls it, else the program's main loop), calls (what the
    /// calls of MPI repeat), or a function of the program
    #[arg(long, default_value = "auto", value_name = "auto|calls|FUNCTION")]
    pub mark: String,
    /// The loop of the program whose passes are the iterations: N of the nest that `trimtab loops` shows; FUNCTION:N, as
    /// `trimtab points FUNCTION` shows it; or FUNCTION if it has one outermost loop
    #[arg(long = "loop", value_name = "N|FUNCTION[:N]", conflicts_with = "mark")]
    pub main_loop: Option<LoopName>,
    /// Groups of functions to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "comm")]
    pub group: Vec<GroupName>,
    /// A further function to measure: NAME[@LIB], with * and ?
    #[arg(long, value_name = "NAME[@LIB]")]
    pub function: Vec<String>,
    /// A library of wrappers, by its file name or the end of its path, or a function: calls of MPI come from its callers, not
    /// from it
    #[arg(long, value_name = "LIB|FUNCTION")]
    pub wrapper: Vec<String>,
    /// Show whole paths: by which the program comes to the call that counts iterations, and to its communication
    #[arg(long)]
    pub path: bool,
    /// Bring up the details of every rank, also of a job of more than 256: without, such a job is summed on the way, and only ranks
    /// that stand out are shown
    #[arg(long)]
    pub all_ranks: bool,
    /// Ranks of a job that all bring their details; for tests.
    #[arg(long, hide = true, default_value_t = DETAIL_RANKS_MAX, value_name = "N")]
    pub detail_ranks_max: u32,
    /// Sum an argument of a function, counted from 0
    #[arg(long, value_name = "FUNCTION:INDEX", value_parser = function_and_index)]
    pub argument: Vec<(String, u8)>,
    /// Keep the first N calls of each function as trace records
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub detail: u64,
    /// Measure until the program ends
    #[arg(long, conflicts_with = "until_confident")]
    pub follow: bool,
    /// End when the 95% interval of the time per iteration is within this many percent
    #[arg(long, value_name = "PERCENT", value_parser = positive, allow_negative_numbers = true)]
    pub until_confident: Option<f64>,
    /// Percent of the window's time that probes may cost; a function whose probes cost more stops and is taken out. 5 unless
    /// given, and a call of MPI goes only if it alone costs more
    #[arg(long, value_name = "PERCENT", value_parser = positive, allow_negative_numbers = true)]
    pub max_cost: Option<f64>,
    /// Take a function's probes out once a rank has called it more than N times in the window
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub max_hits: Option<u64>,
    /// Counters of the processor and the kernel to read on each rank, e.g. instructions,cycles,cache-misses,page-faults,
    /// context-switches; `trimtab doctor` says which work here
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = counter)]
    pub counters: Vec<CountedEvent>,
    /// Take my word for why ranks compute differently long, where no measurement tells: symmetric, all ranks have the same work, so
    /// nodes differ; homogeneous, all nodes are alike, so the work differs
    #[arg(long, value_enum, value_name = "symmetric|homogeneous")]
    pub assume: Option<AssumedName>,
    /// Take my word that the program's seccomp filter allows what trimtab has it call, if the filter can't be read
    #[arg(long)]
    pub seccomp_ok: bool,
    /// Write the report as JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as one self-contained page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the plan of writes and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The event that this window waited for.
    #[arg(skip)]
    pub event: Option<Event>,
    /// Others follow: JSON is appended, one line each.
    #[arg(skip)]
    pub one_of_many: bool,
}

/// How long ranks wait behind `MPI_Init` until all are measured.
#[derive(Clone, Debug, Args)]
pub struct HoldOptions {
    /// With --follow, each rank waits as it comes out of MPI_Init until all are measured, at most so many seconds; so no
    /// call is missed
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = |text: &str| within::<u64>(text, 1..=600))]
    pub hold: u64,
    /// With --follow, hold nobody: measure iterations once the main loop is known
    #[arg(long, conflicts_with = "hold")]
    pub no_hold: bool,
}

/// When to measure.
#[derive(Clone, Debug, Default, Args)]
pub struct EventOptions {
    /// Wait for an event: job-start, job-end, iterations>=K, rate<PER_SECOND, load>X, cpu-steal>X%, pressure>X%,
    /// at=2026-11-22T04:00:00Z, every=10m, after=30s, call, api or api:NAME (of the site's API); the first of several
    #[arg(long, value_delimiter = ',', value_name = "EVENT")]
    pub when: Vec<When>,
    /// Windows to measure, each after an event if --when is given; 0: until the job ends [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub windows: Option<u64>,
}

impl EventOptions {
    /// True if one window is to be measured, at once.
    pub fn is_plain(&self) -> bool {
        self.when.is_empty() && self.windows() == Some(1)
    }

    /// True if calls through a site's API are waited for.
    pub fn wants_api(&self) -> bool {
        self.when.iter().any(|when| when.condition == Condition::Api)
    }

    /// How many windows; `None`: no end.
    pub fn windows(&self) -> Option<u64> {
        Some(self.windows.unwrap_or(1)).filter(|windows| *windows > 0)
    }
}

/// Groups by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum GroupName {
    /// MPI
    Comm,
    /// Files
    Io,
    /// Allocation and mapping of memory
    Mem,
    /// Sleeping and waiting
    Sleep,
    /// Parallel regions of OpenMP; MPI with them
    Omp,
    /// All of them but omp
    All,
}

/// Assumptions about ranks or nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AssumedName {
    /// All ranks have the same work
    Symmetric,
    /// All nodes are alike
    Homogeneous,
}

impl AssumedName {
    /// The same for the report.
    pub fn assumption(self) -> Assumption {
        match self {
            AssumedName::Symmetric => Assumption::Symmetric,
            AssumedName::Homogeneous => Assumption::Homogeneous,
        }
    }
}

fn counter(text: &str) -> Result<CountedEvent, String> {
    let names = COUNTED_EVENTS.map(|event| event.name).join(", ");
    CountedEvent::named(text).ok_or_else(|| format!("there are {names}"))
}

fn process_id(text: &str) -> Result<i32, String> {
    // Others than processes have are told from those later.
    text.parse()
        .map_err(|_| format!("give a process id, a number: `pgrep {text}` shows those of programs of that name"))
}

/// The share of values before those that are judged: `half`, 0.7 or 70%.
fn later_part(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        _ if text.eq_ignore_ascii_case("half") => Some(0.5),
        Some(percent) => percent.parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    };
    let share = share.filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "give `half`, or a share from 0 to below 1, e.g. 0.7 or 70%".to_string())
}

fn function_and_index(text: &str) -> Result<(String, u8), String> {
    let (function, index) = text.rsplit_once(':').ok_or("expected FUNCTION:INDEX, e.g. MPI_Send:1")?;
    let index: u8 = index.parse().map_err(|_| format!("{index:?} is no argument index"))?;
    if index > 31 { Err("only the first 32 arguments can be read".into()) } else { Ok((function.to_string(), index)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_can_not_be_a_number_is_said_in_words() {
        for (words, said) in [
            (&["attach", "lammps"][..], "`pgrep lammps`"),
            (&["model", "fit", "a", "--run", "b {n}", "--over", "n=4k..8k"], "without a unit"),
            (&["forecast", "comp", "a", "--args", "n=-4"], "is no size"),
            (&["undo", "-5"], "unexpected argument"),
            (&["attach", "--iterations", "0", "1"], "a whole number above zero"),
            (&["attach", "--iterations", "-3", "1"], "a whole number above zero"),
            (&["attach", "--start", "-3", "1"], "a whole number, 0 or more"),
            (&["attach", "--at-least", "-1", "1"], "must be above zero"),
            (&["attach", "--max-seconds", "-2", "1"], "must be above zero"),
            (&["attach", "--max-seconds", "x", "1"], "is no number"),
            (&["attach", "--windows", "-1", "1"], "a whole number, 0 or more"),
            (&["attach", "--detail", "many", "1"], "a whole number, 0 or more"),
            (&["probe", "--for", "-1", "tick 1s {}", "1"], "must be above zero"),
            (&["points", "--limit", "-1", "main", "1"], "a whole number, 0 or more"),
            (&["report", "app-1", "--compare", "0", "-1"], "a whole number, 0 or more"),
            (&["watch", "--count", "0", "--name", "app"], "a whole number above zero"),
            (&["watch", "--hold", "-1", "--name", "app"], "a whole number from 1 to 60000"),
            (&["site", "issue", "folder", "user:1", "--days", "-1"], "a whole number from 1 to 7300"),
            (&["controller", "--fan-out", "0"], "a whole number from 1 to 4096"),
        ] {
            let parsed = Arguments::try_parse_from(["trimtab"].iter().chain(words));
            let error = parsed.expect_err("it is refused").to_string();
            assert!(error.contains(said) && !error.contains("invalid digit"), "{words:?}: {error}");
        }
    }

    #[test]
    fn numbers_are_checked() {
        let parse = |words: &[&str]| Arguments::try_parse_from(words.iter().copied());
        assert!(parse(&["trimtab", "attach", "--iterations", "0", "1"]).is_err());
        assert!(parse(&["trimtab", "attach", "--max-seconds", "-1", "1"]).is_err());
        assert!(parse(&["trimtab", "attach", "--argument", "MPI_Send", "1"]).is_err());
        assert!(parse(&["trimtab", "attach", "--argument", "MPI_Send:1", "--group", "comm,io", "1"]).is_ok());
    }
}
