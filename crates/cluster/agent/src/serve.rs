//! An agent: joins the tree, finds its ranks, does what a window asks, and goes.
//!
//! It has one thread of its own and one for the node of the tree; what it is asked is done in order. It ends when the
//! lead says so, when it is asked to by a signal, or when nobody was heard of for a while.
//!
//! Next: `talk` for what is asked, `trimtab_measure::Node` for what is done.

use crate::audit::Audit;
use crate::error::Error;
use crate::talk::{Ask, Present, PresentRank, Question, Say};
use crate::ticket::{Ticket, Whose, node_of};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trimtab_audit::What;
use trimtab_link::blocking::Blocking;
use trimtab_link::{Config, Credentials, JobSecret, incarnation_now};
use trimtab_measure::{Command, Node, Request, has_static_mpi, host_name};
use trimtab_overlay::{Busy, Setup, Timing, Told};
use trimtab_reduce::filter::VALUE_BYTES_MAX;
use trimtab_reduce::lists::Concat;
use trimtab_reduce::{Filter, RankSet, Registry};
use trimtab_session::ImageCache;
use trimtab_track::{Job, ProcFs, find_job_in, find_slurm_job_in};
use trimtab_types::{Pid, Rank, one_line};

/// Time between two looks at signals and the clock.
const LOOK: Duration = Duration::from_millis(200);
/// An agent that no parent would have for so long ends.
const ALONE_MAX: Duration = Duration::from_secs(15);
/// How long a contribution may be refused because its wave isn't open here yet.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// After it said that it ends, its word must still leave the host.
const BYE: Duration = Duration::from_millis(300);

/// Runs an agent whose ticket comes from `ticket`, until it is not needed any more.
///
/// # Errors
/// A ticket that can't be used, or a tree that can't begin; afterwards only the lead is told what goes wrong.
pub fn serve(ticket: &mut impl Read) -> Result<(), Error> {
    let (secret, ticket) = Ticket::read(ticket)?;
    let names = own_names();
    let index = ticket.index_of(&names)?;
    let asked_to_end = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, asked_to_end.clone())?;
    }
    let link = join(&ticket, &secret, index)?;
    let cache = ImageCache::of_user();
    let mut agent =
        Agent { ticket: &ticket, index, link: &link, cache: &cache, ranks: None, alone_since: Some(Instant::now()) };
    while !asked_to_end.load(Ordering::Relaxed) && agent.alone_since.is_none_or(|since| since.elapsed() < ALONE_MAX) {
        let Some(told) = link.wait(LOOK) else { continue };
        if agent.told(told)?.is_break() {
            std::thread::sleep(BYE);
            break;
        }
    }
    agent.abandon("the agent ended");
    Ok(())
}

/// What this host is called: by the batch system, and by itself.
fn own_names() -> Vec<String> {
    let own = host_name();
    let short = own.split('.').next().unwrap_or(&own).to_owned();
    let mut names: Vec<String> = std::env::var("SLURMD_NODENAME").into_iter().chain([own, short]).collect();
    names.dedup();
    names
}

fn join(ticket: &Ticket, secret: &JobSecret, index: usize) -> Result<Blocking, Error> {
    let id = node_of(index);
    let credentials = Arc::new(Credentials::of_job(secret, id)?);
    let (ancestors, contacts): (Vec<_>, Vec<_>) = ticket.ancestors(index).into_iter().unzip();
    let config = || Config {
        setup: Setup {
            id,
            incarnation: incarnation_now(),
            ancestors: ancestors.clone(),
            ranks: RankSet::one(Rank(index as u32)),
            timing: Timing::default(),
            registry: Arc::new(Registry::default()),
        },
        tree: ticket.tree,
        listener: None,
        contacts: contacts.clone(),
        credentials: Some(credentials.clone()),
    };
    let listen = ticket.has_children(index).then(|| ticket.listens_at(index));
    match Blocking::start(config(), listen.clone()) {
        // Somebody else has that port; those below find a parent further up.
        Err(_) if listen.is_some() => Ok(Blocking::start(config(), None)?),
        started => Ok(started?),
    }
}

/// An agent and what it knows.
struct Agent<'a> {
    ticket: &'a Ticket,
    index: usize,
    link: &'a Blocking,
    cache: &'a ImageCache,
    /// Its part of the job, once it was found.
    ranks: Option<Ranks<'a>>,
    alone_since: Option<Instant>,
}

/// The ranks of the job on this host.
struct Ranks<'a> {
    node: Node<'a>,
    present: Present,
    audit: Audit,
}

impl<'a> Agent<'a> {
    /// Breaks when it is to end.
    fn told(&mut self, told: Told) -> Result<std::ops::ControlFlow<()>, Error> {
        match told {
            Told::Attached { .. } => self.alone_since = None,
            Told::Orphaned => self.alone_since = Some(Instant::now()),
            Told::Uninstrument => self.abandon("nothing was heard of the lead"),
            Told::Command { stream, payload, .. } => {
                let question: Question =
                    postcard::from_bytes(&payload).map_err(|_| Error::Malformed { what: "a question" })?;
                let leaves = question.ask == Ask::Leave;
                let say = self.answer(question.ask);
                self.contribute(stream, question.wave, &say)?;
                if leaves {
                    return Ok(std::ops::ControlFlow::Break(()));
                }
            }
            _ => {}
        }
        Ok(std::ops::ControlFlow::Continue(()))
    }

    fn answer(&mut self, ask: Ask) -> Say {
        let said = match ask {
            Ask::Who => self.who(),
            Ask::Window(command) => self.window(&command),
            Ask::Leave => {
                self.abandon("the lead ended");
                Ok(Say::Bye)
            }
        };
        said.unwrap_or_else(|(reason, is_early)| Say::No { host: host_name(), reason, is_early })
    }

    fn who(&mut self) -> Result<Say, (String, bool)> {
        if let Some(ranks) = &self.ranks {
            return Ok(Say::Here(ranks.present.clone()));
        }
        let job = find(&self.ticket.whose)?;
        let audit = Audit::of_job(&self.ticket.command, &job).map_err(|error| (one_line(&error), false))?;
        audit.permit().map_err(|denied| (denied.to_string(), false))?;
        let rank = |process: &trimtab_track::RankProcess| PresentRank {
            rank: process.rank.0,
            pid: process.pid.0,
            start_ticks: process.start_time_ticks,
        };
        let ranks = job.ranks.iter().map(rank).collect();
        let present = Present { host: host_name(), key: job.key.clone(), size: job.size, ranks };
        let node = Node::new(self.index as u32, job, self.cache);
        self.ranks = Some(Ranks { node, present: present.clone(), audit });
        Ok(Say::Here(present))
    }

    fn window(&mut self, command: &[u8]) -> Result<Say, (String, bool)> {
        if self.ranks.is_none() {
            self.who()?;
        }
        let Some(ranks) = &mut self.ranks else { return Err(("no rank was found here".to_owned(), true)) };
        let is = |wanted: fn(&Request) -> bool| {
            postcard::from_bytes::<Command>(command).is_ok_and(|command| wanted(&command.request))
        };
        if is(|request| matches!(request, Request::Insert(_))) {
            ranks.audit.begin().map_err(|error| (one_line(&error), false))?;
        }
        let answer = ranks.node.answer(command).map_err(|error| (one_line(&error), false))?;
        if is(|request| matches!(request, Request::Remove | Request::Abandon)) {
            ranks.audit.end(&What::Restored);
        }
        Ok(Say::Window(answer))
    }

    /// Takes out whatever is in.
    fn abandon(&mut self, why: &str) {
        if let Some(ranks) = &mut self.ranks
            && ranks.node.abandon()
        {
            eprintln!("trimtab: {why}: the probes were taken out");
            ranks.audit.end(&What::Restored);
        }
    }

    /// Gives an answer to its wave.
    fn contribute(&self, stream: u32, wave: u64, say: &Say) -> Result<(), Error> {
        let concat = Concat { byte_count_max: VALUE_BYTES_MAX as u32 };
        let rank = Rank(self.index as u32);
        let encoded = |say: &Say| {
            let bytes = postcard::to_allocvec(say).map_err(|_| Error::Malformed { what: "an answer" })?;
            concat.encode(&concat.of(&bytes, rank)).map_err(|_| Error::Malformed { what: "an answer" })
        };
        let value = encoded(say).or_else(|_| {
            let reason = "the answer is too long for the tree: measure fewer functions or iterations".to_owned();
            encoded(&Say::No { host: host_name(), reason, is_early: false })
        })?;
        let until = Instant::now() + OPEN_MAX;
        loop {
            match self.link.handle().contribute(stream, wave, value.clone()) {
                // The lead has given the question up, or asked it before this agent came.
                Err(Busy::Window { from, .. }) if wave < from => return Ok(()),
                Err(Busy::Window { .. } | Busy::NoStream { .. }) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return Ok(()),
                Ok(()) => return Ok(()),
            }
        }
    }
}

/// The ranks that the ticket is for; why there are none, and whether there may be some a moment later.
fn find(whose: &Whose) -> Result<Job, (String, bool)> {
    let processes = ProcFs::new();
    let found = match whose {
        Whose::Processes(pids) => {
            let runs = |pid: &&i32| trimtab_os::start_time_ticks(Pid(**pid)).is_some();
            let Some(pid) = pids.iter().find(runs) else {
                return Err(("none of the job's processes runs here".to_owned(), false));
            };
            find_job_in(&processes, Pid(*pid), &has_static_mpi)
        }
        Whose::Slurm { .. } => {
            let Some(run) = whose.slurm() else { return Err(("no job was named".to_owned(), false)) };
            find_slurm_job_in(&processes, &run, &has_static_mpi)
        }
    };
    found.map_err(|error| (one_line(&error), error.is_retryable()))
}
