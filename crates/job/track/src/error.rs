//! The errors of finding a job, with what was seen and what to do next.

use std::fmt;
use std::path::PathBuf;
use trimtab_types::{Pid, Rank};

/// Why a job was not found or can't be attached to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing has this pid, or it ended while it was looked at.
    #[error("no process has pid {pid}; `ps -e | grep mpi` lists what runs")]
    NoSuchProcess {
        /// The pid asked for.
        pid: Pid,
    },
    /// The process has ended and waits for its parent.
    #[error("process {pid} ({command}) has ended (zombie); give the pid of a job that still runs")]
    Zombie {
        /// The ended process.
        pid: Pid,
        /// Its short name.
        command: String,
    },
    /// Neither the process nor anything it started uses MPI.
    #[error(
        "process {pid} ({command}) is not an MPI program: {seen}; give the pid of mpirun, mpiexec, srun or of one rank"
    )]
    NotMpi {
        /// The pid asked for.
        pid: Pid,
        /// Its short name.
        command: String,
        /// The processes that were looked at.
        seen: String,
    },
    /// A launcher that has no MPI program below it yet.
    #[error(
        "launcher {pid} ({command}) has no MPI rank on this machine yet: {seen}; try again in a moment, or on the node where the ranks run"
    )]
    NoRanksYet {
        /// The launcher.
        pid: Pid,
        /// Its short name.
        command: String,
        /// The processes that were looked at.
        seen: String,
    },
    /// More than one job is below the process.
    #[error("process {pid} has {} MPI jobs below it; give the pid of one of: {}", launchers.len(), launchers.join(", "))]
    SeveralJobs {
        /// The pid asked for.
        pid: Pid,
        /// "PID (command)" of each launcher or program.
        launchers: Vec<String>,
    },
    /// A Slurm job none of whose ranks is here yet.
    #[error("no MPI rank of Slurm job {job} runs on this machine yet: {seen}; try again in a moment")]
    NoSlurmRanks {
        /// The job.
        job: String,
        /// The processes that were looked at.
        seen: String,
    },
    /// A launch that came from another machine, or went to others, has nothing here.
    #[error("nothing of this launch runs on this machine")]
    NotLaunchedHere,
    /// Launches of the same beginning, of which nothing tells which one is meant.
    #[error(
        "{count} launches on this machine begin as this one does; give the PID of a rank, or start one rank beside the launcher"
    )]
    SeveralLaunches {
        /// How many.
        count: usize,
    },
    /// A Slurm job runs several MPI programs here.
    #[error("Slurm job {job} runs {} MPI programs here; `trimtab attach` one of: {}", worlds.len(), worlds.join(", "))]
    SeveralInSlurm {
        /// The job.
        job: String,
        /// A step, or "PID (command)" of a launcher, each.
        worlds: Vec<String>,
    },
    /// Two unrelated processes of one job have the same rank.
    #[error(
        "processes {first} and {second} both are rank {rank} of one job; give the pid of the rank whose program you mean, or start one MPI program per rank"
    )]
    SameRankTwice {
        /// The rank.
        rank: Rank,
        /// One process.
        first: Pid,
        /// The other.
        second: Pid,
    },
    /// The launcher's table and the environment name different ranks.
    #[error(
        "process {pid} is rank {of_table} in the table of launcher {launcher} (MPIR_proctable) and rank {of_environment} by {variable} in its environment; please report it with `trimtab --version` and the launcher's version, and give the pid of one rank"
    )]
    SourcesDisagree {
        /// The process.
        pid: Pid,
        /// The launcher that the table is of.
        launcher: Pid,
        /// Its place in the table.
        of_table: Rank,
        /// The rank that its environment says.
        of_environment: Rank,
        /// The variable that says it.
        variable: &'static str,
    },
    /// The system will not let us look at or attach to the process.
    #[error("not allowed to measure process {pid} ({command}): {denial}")]
    NotPermitted {
        /// The process.
        pid: Pid,
        /// Its short name, empty if unknown.
        command: String,
        /// The rule that forbids it, and the way out.
        denial: Denial,
    },
    /// Not a 64-bit x86 program.
    #[error("process {pid} runs {} which is {found}; only 64-bit x86 programs can be measured, build the program for x86-64", program.display())]
    WrongMachine {
        /// The process.
        pid: Pid,
        /// Its program.
        program: PathBuf,
        /// Such as "a 32-bit program".
        found: &'static str,
    },
    /// Another debugger or tracer holds the process.
    #[error("process {pid} is traced by {tracer} ({tracer_command}); end that tracer, then try again")]
    Traced {
        /// The process.
        pid: Pid,
        /// The process that traces it.
        tracer: Pid,
        /// Short name of the tracer.
        tracer_command: String,
    },
    /// Another command of ours is putting its probes into it, or taking them out.
    #[error("process {pid} is being measured by trimtab process {monitor}; wait for it to end")]
    Measured {
        /// The process.
        pid: Pid,
        /// The command's process.
        monitor: Pid,
    },
    /// A file under `/proc` could not be read.
    #[error("cannot read {}; is /proc mounted?", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A file under `/proc` has a form that is not known.
    #[error("{} has unknown text: {text:?}; please report it with the kernel's version (uname -r)", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line or field.
        text: String,
    },
}

/// A rule that forbids looking at or attaching to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// It belongs to another user or group and we lack the capability to trace it.
    OtherUser {
        /// User of the process.
        uid: u32,
        /// Our own user.
        own_uid: u32,
    },
    /// The Yama security module forbids it.
    PtraceScope {
        /// Value of `/proc/sys/kernel/yama/ptrace_scope`.
        value: u8,
    },
    /// The process has capabilities that we lack.
    MoreRights {
        /// Those, one bit each.
        lacking: u64,
        /// True if we are root, who has lost them.
        is_root: bool,
    },
    /// The kernel refused to show this file although users and capabilities agree.
    Hidden {
        /// The file.
        path: PathBuf,
        /// True if we are root.
        is_root: bool,
    },
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denial::OtherUser { uid, own_uid } => {
                write!(f, "it belongs to user {uid} and you are user {own_uid}; run trimtab as user {uid} or as root")
            }
            Denial::PtraceScope { value: 1 } => write!(
                f,
                "/proc/sys/kernel/yama/ptrace_scope is 1, which allows tracing of own children only; start the job \
                 with `trimtab run`, or as root: `sysctl kernel.yama.ptrace_scope=0`"
            ),
            Denial::PtraceScope { value: 3 } => write!(
                f,
                "/proc/sys/kernel/yama/ptrace_scope is 3, which forbids tracing until the next boot; ask the \
                 administrator to boot with a lower value"
            ),
            Denial::PtraceScope { value } => write!(
                f,
                "/proc/sys/kernel/yama/ptrace_scope is {value}, which allows tracing to administrators only; run \
                 trimtab as root, or as root: `sysctl kernel.yama.ptrace_scope=0`"
            ),
            Denial::MoreRights { lacking, is_root } => {
                let next = if *is_root {
                    "run trimtab outside of the container that took them"
                } else {
                    "run trimtab as root"
                };
                write!(f, "it has capabilities that trimtab lacks (`capsh --decode={lacking:x}` names them); {next}")
            }
            Denial::Hidden { path, is_root: true } => write!(
                f,
                "{} may not be read, not even by root: a security module or a container forbids it; run trimtab where it \
                 doesn't, or see `dmesg`",
                path.display()
            ),
            Denial::Hidden { path, is_root: false } => write!(
                f,
                "{} may not be read: the program is hidden from its own user, as setuid programs are; run trimtab as root",
                path.display()
            ),
        }
    }
}

impl Error {
    /// True if the same question may have another answer a moment later, without the user doing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            // Ranks that are missing there may be on their way.
            Error::NoRanksYet { .. } | Error::NoSlurmRanks { .. } | Error::NotLaunchedHere => true,
            // One of ours stops a process for milliseconds.
            Error::Measured { .. } => true,
            Error::NoSuchProcess { .. }
            | Error::Zombie { .. }
            | Error::NotMpi { .. }
            | Error::SeveralJobs { .. }
            | Error::SeveralInSlurm { .. }
            | Error::SeveralLaunches { .. }
            | Error::SameRankTwice { .. }
            | Error::SourcesDisagree { .. }
            | Error::NotPermitted { .. }
            | Error::WrongMachine { .. }
            | Error::Traced { .. }
            | Error::Read { .. }
            | Error::Malformed { .. } => false,
        }
    }

    /// True if the process is gone, so that a search goes on without it.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Error::NoSuchProcess { .. } | Error::Zombie { .. })
    }
}
