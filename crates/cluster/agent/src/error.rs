//! The errors between agents and their lead.
//!
//! Next: `lead` and `serve`, which raise these.

use trimtab_engine::{BoxError, RSH_VARIABLE};
use trimtab_link::LinkError;

/// Why a job's agents can't be used, or an agent can't serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree could not begin.
    #[error("the tree of agents could not begin")]
    Link(#[from] LinkError),
    /// The tree refused what we gave it.
    #[error("the tree of agents refused a command")]
    Busy(#[from] trimtab_overlay::Busy),
    /// A ticket that can't be read.
    #[error("no ticket: {what}; agents are started by `trimtab attach --slurm`, not by hand")]
    Ticket {
        /// The fault, in words.
        what: String,
    },
    /// This host has no place in the ticket.
    #[error("this host is {host}, and the ticket is for {}", places.join(", "))]
    NotInvited {
        /// This host.
        host: String,
        /// The ticket's.
        places: Vec<String>,
    },
    /// A program that starts agents is not there.
    #[error("can't run {command}; is it installed and in PATH here?")]
    NoStarter {
        /// The command that was to be run.
        command: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Nobody came.
    #[error("{}", nobody_came(*seconds, address, said, *has_ended))]
    NobodyCame {
        /// True if what starts them has ended.
        has_ended: bool,
        /// How long we waited.
        seconds: u64,
        /// Where they were awaited.
        address: String,
        /// The words of the program that starts them.
        said: String,
    },
    /// Those who were to start agents started nobody, and will not.
    #[error("no agent was started: {said}")]
    NobodyStarted {
        /// Why, for each node.
        said: String,
    },
    /// No agent found a rank.
    #[error("{}", if reasons.is_empty() { "no agent answered".to_owned() } else { reasons.join("; ") })]
    NoRanks {
        /// Why, one for each different reason.
        reasons: Vec<String>,
    },
    /// A node's name has no address.
    #[error("the name {name} has no address here: is it in /etc/hosts or the name service?")]
    NoAddress {
        /// Which.
        name: String,
    },
    /// Bytes that no node of ours sends.
    #[error("{what} can't be understood; do all nodes run the same trimtab?")]
    Malformed {
        /// The kind of answer that came.
        what: &'static str,
    },
    /// Others were to start the agents, and could not.
    #[error(transparent)]
    Others(BoxError),
    /// The agents have more to say than the lead keeps.
    #[error("the agents' answers have {bytes} bytes, at most {bytes_max}: ask for fewer functions, ranks or records")]
    TooMuch {
        /// How many bytes they say they have.
        bytes: u64,
        /// How many there may be.
        bytes_max: u64,
    },
    /// Slurm told of a job, and of no part of it.
    #[error("Slurm named no part of the job")]
    NoPart,
    /// The way to a host is another user's.
    #[error(
        "{launcher} reaches {host} as user {uid}, and you are user {own_uid}: run trimtab as that user, or say in \
         {RSH_VARIABLE} which command reaches a host, such as `ssh`"
    )]
    AnothersWay {
        /// The launcher that went that way.
        launcher: String,
        /// Where.
        host: String,
        /// As whom.
        uid: u32,
        /// The caller.
        own_uid: u32,
    },
    /// This process can't be looked at.
    #[error(transparent)]
    Track(#[from] trimtab_track::Error),
    /// Something of the system's failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The user interrupted.
    #[error("interrupted before the window began; the program runs on unchanged")]
    Interrupted,
}

fn nobody_came(seconds: u64, address: &str, said: &str, has_ended: bool) -> String {
    let said = said_by(said);
    match has_ended {
        true if said.is_empty() => {
            "no agent came: the command that starts them ended and said nothing; run it by hand \
                                    (`srun` or `ssh` to a node, with `trimtab --version`) to see why"
                .to_owned()
        }
        true => format!("no agent came: the command that starts them ended{said}"),
        false => format!("no agent came within {seconds} s{said}; is the way from the nodes to tcp:{address} open?"),
    }
}

fn said_by(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" ({said})") }
}
