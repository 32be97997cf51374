//! The decision: which processes are the ranks of the job that a pid belongs to?
//!
//! All facts come through [`Processes`], so the decision is the same on a recording as on a machine. Processes
//! come and go while they are looked at: one that vanishes is left out, unless it is the one asked for.
//!
//! Next: `job/tree.rs` for parents and launchers, `job/member.rs` for what makes a process a rank, `job/slurm.rs` for jobs
//! by Slurm's ids, `job/far.rs` for launches that went to other machines.

mod far;
mod handle;
mod member;
mod slurm;
mod tree;

use crate::attach::{check_alive, check_attachable};
use crate::error::Error;
use crate::launcher;
use crate::procfs::{ProcFs, Processes};
use crate::status::Seccomp;
pub(crate) use far::mark_in;
pub use far::{Far, Launch, far_launch, find_launched_job_in};
pub use handle::{SlurmHandle, slurm_handle};
pub use member::StaticMpi;
use member::{Member, Standing};
pub use slurm::{find_slurm_job, find_slurm_job_in};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tree::Tree;
use trimtab_mpi::Family;
use trimtab_types::context::Context;
use trimtab_types::procfs::State;
use trimtab_types::{Pid, Rank};

/// The ranks of one MPI program on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The process that started the ranks and ends with them; `None` for a program that was started without one.
    pub launcher: Option<Pid>,
    /// The ranks, in rising order of rank.
    pub ranks: Vec<RankProcess>,
    /// Number of ranks in `MPI_COMM_WORLD`, where the launcher says so; some may run on other machines.
    pub size: Option<u32>,
    /// Names this job among all that ever ran since boot; the same for each way to ask.
    pub key: String,
    /// Ranks of other worlds that the same launcher started (`MPI_Comm_spawn`), which are not part of this job.
    pub other_worlds: Vec<Pid>,
    /// True if another MPI program started this one, by `MPI_Comm_spawn`.
    pub spawned: bool,
    /// The ranks of that program: some of `other_worlds`. Empty if none is here, or the launcher does not say which.
    pub parent: Vec<Pid>,
}

/// One rank: who it is and what a measurement must know before it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankProcess {
    /// The process.
    pub pid: Pid,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: Rank,
    /// Number of ranks, where its launcher says so.
    pub size: Option<u32>,
    /// Its rank among those of this machine, where its launcher says so.
    pub local_rank: Option<u32>,
    /// The variable that gave the rank; `None` for a program without launcher.
    pub identity_source: Option<&'static str>,
    /// Start in clock ticks after boot; with the pid it names the process for ever.
    pub start_time_ticks: u64,
    /// The program.
    pub executable: PathBuf,
    /// Its arguments, its own name first.
    pub arguments: Vec<String>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Effective user.
    pub uid: u32,
    /// Its state when it was looked at; a stopped rank makes no progress.
    pub state: State,
    /// Number of threads.
    pub threads: u32,
    /// System call filter; injected system calls may be refused.
    pub seccomp: Seccomp,
    /// True if the processor keeps a shadow stack.
    pub shadow_stack: bool,
    /// Namespaces in which it differs from us ("pid", "mnt"...): paths or numbers mean something else there.
    pub namespaces_differ: Vec<String>,
    /// Processors it may run on, as the kernel writes it.
    pub cpus_allowed: String,
    /// Processor it ran on last.
    pub last_cpu: u32,
    /// Family of its MPI library, as far as file names tell.
    pub family: Family,
    /// Path of the mapped MPI library; `None` for a static program.
    pub library: Option<PathBuf>,
}

impl Job {
    /// Ranks below `size` that are not on this machine, or not started yet; empty if the size is unknown.
    pub fn missing_ranks(&self) -> Vec<Rank> {
        let present: BTreeSet<u32> = self.ranks.iter().map(|process| process.rank.0).collect();
        (0..self.size.unwrap_or(0)).filter(|rank| !present.contains(rank)).map(Rank).collect()
    }

    /// The job with those of its ranks here that `ranks` means on this `host`; its size stays the whole job's, or what is
    /// here where the launcher does not say.
    pub fn within(&self, ranks: &Context, host: &str) -> Job {
        let mut job = self.clone();
        job.ranks.retain(|process| ranks.contains(process.rank.0, host));
        job.size = self.size.or(Some(self.ranks.len() as u32));
        job
    }

    /// True if every rank of the job is here.
    pub fn is_complete(&self) -> bool {
        self.size.is_some() && self.missing_ranks().is_empty()
    }
}

/// Finds the job of `pid` on this machine, among programs that have an MPI library mapped. Callers that can read a
/// program's symbols find static MPI programs too, with [`find_job_in`].
///
/// # Errors
/// See [`Error`]; [`Error::is_retryable`] tells a launcher that has not started its ranks yet.
pub fn find_job(pid: Pid) -> Result<Job, Error> {
    find_job_in(&ProcFs::new(), pid, &|_| false)
}

/// Finds the job of `pid` among `processes`; `is_static_mpi` is asked about programs that have no MPI library mapped
/// but a rank in their environment.
///
/// # Errors
/// See [`Error`].
pub fn find_job_in(processes: &dyn Processes, pid: Pid, is_static_mpi: StaticMpi) -> Result<Job, Error> {
    let stat = processes.stat(pid)?;
    check_alive(&stat)?;
    let pid = processes.status(pid)?.process;
    let search = Search::begin(processes, is_static_mpi)?;
    let world = match search.member(pid)? {
        Some(member) if member.standing == Standing::Ahead => search.world_ahead(member)?,
        Some(member) => search.world_of_rank(member)?,
        None => search.world_below(pid)?,
    };
    search.job(world)
}

/// The members of one world, and what started them.
struct World {
    launcher: Option<Pid>,
    members: Vec<Member>,
    other_worlds: Vec<Pid>,
}

struct Search<'a> {
    processes: &'a dyn Processes,
    is_static_mpi: StaticMpi<'a>,
    tree: Tree,
}

impl<'a> Search<'a> {
    fn begin(processes: &'a dyn Processes, is_static_mpi: StaticMpi<'a>) -> Result<Search<'a>, Error> {
        Ok(Search { processes, is_static_mpi, tree: Tree::scan(processes)? })
    }
}

impl Search<'_> {
    fn member(&self, pid: Pid) -> Result<Option<Member>, Error> {
        Member::look(self.processes, pid, self.is_static_mpi)
    }

    /// The world that a process belongs to which has not called `MPI_Init`: its own, unless it is a program around ranks.
    fn world_ahead(&self, asked: Member) -> Result<World, Error> {
        let is_meant = |world: &World| asked.identity.is_none() || world.members[0].world_key() == asked.world_key();
        match self.world_below(asked.pid) {
            Ok(world) if is_meant(&world) => Ok(world),
            Err(error @ Error::SeveralJobs { .. }) if asked.identity.is_none() => Err(error),
            _ => self.world_of_rank(asked),
        }
    }

    /// The world that a rank belongs to.
    fn world_of_rank(&self, asked: Member) -> Result<World, Error> {
        let Some(launcher) = self.tree.launcher_above(asked.pid) else {
            return self.world_without_launcher(asked);
        };
        let found = self.members_below(launcher)?;
        let (same, other): (Vec<Member>, Vec<Member>) = self.originals(found).into_iter().partition(|member| {
            member.world_key() == asked.world_key() && self.tree.launcher_above(member.pid) == Some(launcher)
        });
        let other_worlds = other.iter().filter(|member| member.identity.is_some()).map(|member| member.pid).collect();
        if asked.identity.is_none() {
            return Ok(World { launcher: None, members: vec![asked], other_worlds: Vec::new() });
        }
        Ok(World { launcher: Some(launcher), members: same, other_worlds })
    }

    /// A rank whose launcher is not above it (it has ended, or runs where we can't see it), or has none.
    fn world_without_launcher(&self, asked: Member) -> Result<World, Error> {
        if !asked.has_job_id() {
            return Ok(World { launcher: None, members: vec![asked], other_worlds: Vec::new() });
        }
        let all = self.members_among(self.tree.pids())?;
        let same = all.into_iter().filter(|member| member.world_key() == asked.world_key()).collect();
        Ok(World { launcher: None, members: self.originals(same), other_worlds: Vec::new() })
    }

    /// The world below a process that is no rank: a launcher, one of its helpers, or a shell around one.
    fn world_below(&self, pid: Pid) -> Result<World, Error> {
        let top = self.tree.launcher_at_or_above(pid).unwrap_or(pid);
        let mut members = self.originals(self.members_below(top)?);
        if members.is_empty() && launcher::is_slurm_front_end(self.tree.command(top)) {
            members = self.originals(self.slurm_members(top)?);
        }
        if members.iter().any(|member| member.identity.is_some()) {
            members.retain(|member| member.identity.is_some());
        }
        match self.groups(members).as_mut_slice() {
            [] => Err(self.nothing_below(top)),
            groups => self.whole(top, self.choose(pid, top, groups)?),
        }
    }

    /// The whole world where only a part of it was below `top`: a shell that the launcher started around one rank.
    fn whole(&self, top: Pid, world: World) -> Result<World, Error> {
        let is_above = world.launcher.is_some_and(|launcher| self.tree.ancestors(top).any(|above| above == launcher));
        match world.members.first() {
            Some(member) if is_above => self.world_of_rank(member.clone()),
            _ => Ok(world),
        }
    }

    /// Members by what launched them and by world.
    fn groups(&self, members: Vec<Member>) -> Vec<(Option<Pid>, Vec<Member>)> {
        let mut groups: BTreeMap<(Option<Pid>, String), Vec<Member>> = BTreeMap::new();
        for member in members {
            let launcher = member.identity.as_ref().and_then(|_| self.tree.launcher_above(member.pid));
            groups.entry((launcher, member.world_key())).or_default().push(member);
        }
        groups.into_iter().map(|((launcher, _), members)| (launcher, members)).collect()
    }

    /// One world of several: the only one, or the oldest of those that the process itself launched.
    fn choose(&self, pid: Pid, top: Pid, groups: &mut [(Option<Pid>, Vec<Member>)]) -> Result<World, Error> {
        let launchers: BTreeSet<Option<Pid>> = groups.iter().map(|(launcher, _)| *launcher).collect();
        let single = launchers.len() == 1 && (groups.len() == 1 || launchers.iter().all(Option::is_some));
        if !single && !launchers.contains(&Some(top)) {
            return Err(self.several(pid, groups));
        }
        let wanted = if single { launchers.first().copied().flatten() } else { Some(top) };
        let oldest = |members: &[Member]| members.iter().map(|member| member.start_time_ticks).min();
        let mut own: Vec<Vec<Member>> = groups
            .iter_mut()
            .filter(|(launcher, _)| *launcher == wanted)
            .map(|(_, members)| std::mem::take(members))
            .collect();
        own.sort_by_key(|members| oldest(members));
        let mut own = own.into_iter();
        let members = own.next().unwrap_or_default();
        Ok(World { launcher: wanted, members, other_worlds: own.flatten().map(|member| member.pid).collect() })
    }

    fn several(&self, pid: Pid, groups: &[(Option<Pid>, Vec<Member>)]) -> Error {
        let first = |members: &[Member]| members.first().map(|member| member.pid);
        let heads: BTreeSet<Pid> =
            groups.iter().filter_map(|(launcher, members)| launcher.or(first(members))).collect();
        let launchers = heads.into_iter().map(|head| format!("{head} ({})", self.tree.command(head))).collect();
        Error::SeveralJobs { pid, launchers }
    }

    /// Nothing was found: a launcher may still be starting, anything else is no MPI program.
    fn nothing_below(&self, pid: Pid) -> Error {
        let below: Vec<Pid> = self.tree.descendants(pid).collect();
        let with_library: Vec<Pid> = std::iter::once(pid).chain(below.iter().copied()).collect();
        let with_library = with_library.into_iter().filter(|pid| member::has_library(self.processes, *pid));
        let with_library: Vec<String> = with_library.map(|pid| format!("{pid} ({})", self.tree.command(pid))).collect();
        let seen = match (with_library.is_empty(), below.len()) {
            (false, _) => format!(
                "{} has an MPI library in memory, but has not called MPI_Init, and nothing asks for that in it but what \
                 was preloaded",
                with_library.join(", ")
            ),
            (true, 0) => "no MPI library is mapped into it, and it has no child processes".to_owned(),
            (true, many) => {
                let names = self.commands(&below);
                format!("no MPI library is mapped into it or into the {many} processes below it ({names})")
            }
        };
        let command = self.tree.command(pid).to_owned();
        match self.tree.is_launcher(pid) {
            true => Error::NoRanksYet { pid, command, seen },
            false => Error::NotMpi { pid, command, seen },
        }
    }

    /// Short names of processes, each once.
    fn commands(&self, pids: &[Pid]) -> String {
        let names: BTreeSet<&str> = pids.iter().map(|pid| self.tree.command(*pid)).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }

    fn members_below(&self, top: Pid) -> Result<Vec<Member>, Error> {
        self.members_among(self.tree.descendants(top))
    }

    /// The MPI processes among `pids`. One that may not be looked at is an error only if none is found.
    fn members_among(&self, pids: impl Iterator<Item = Pid>) -> Result<Vec<Member>, Error> {
        let (mut members, mut denied) = (Vec::new(), None);
        for pid in pids {
            match self.member(pid) {
                Ok(member) => members.extend(member),
                Err(error) if error.is_gone() => {}
                Err(error @ Error::NotPermitted { .. }) => denied = denied.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match denied {
            Some(error) if members.is_empty() => Err(error),
            _ => Ok(members),
        }
    }

    /// The members without programs around them, which have a rank's environment and have not called `MPI_Init` as the rank
    /// has, and without those that a rank forked: they have its rank, its library and it as an ancestor.
    fn originals(&self, mut members: Vec<Member>) -> Vec<Member> {
        // Keys of two launches may be equal.
        let whole = |member: &Member| (self.tree.launcher_above(member.pid), member.world_key(), member.rank());
        let ranks = members.iter().filter(|member| member.standing == Standing::Rank && member.identity.is_some());
        let apart = self.apart(&members, &whole);
        let taken: BTreeSet<_> = ranks.filter(|member| !apart.contains(&member.pid)).map(whole).collect();
        members.retain(|member| member.standing == Standing::Rank || !taken.contains(&whole(member)));
        let identities: BTreeMap<Pid, (String, Option<u32>)> =
            members.iter().map(|member| (member.pid, (member.world_key(), member.rank()))).collect();
        let is_copy = |member: &Member| {
            let own = identities.get(&member.pid);
            self.tree.ancestors(member.pid).any(|ancestor| {
                identities.get(&ancestor) == own || (member.identity.is_none() && identities.contains_key(&ancestor))
            })
        };
        members.into_iter().filter(|member| !is_copy(member)).collect()
    }

    /// Those that begin MPI apart from the process that they were forked from, which is the rank and has not come to it yet.
    fn apart<T: Ord>(&self, members: &[Member], whole: &dyn Fn(&Member) -> T) -> BTreeSet<Pid> {
        let ahead: BTreeMap<Pid, T> = members
            .iter()
            .filter(|member| member.standing == Standing::Ahead)
            .map(|member| (member.pid, whole(member)))
            .collect();
        let is_forked = |member: &Member| {
            let own = Some(whole(member));
            self.tree.ancestors(member.pid).any(|ancestor| ahead.get(&ancestor) == own.as_ref())
        };
        let begun = members.iter().filter(|member| member.standing == Standing::Rank);
        let apart = begun.filter(|member| is_forked(member) && member.has_left_launch(self.processes));
        apart.map(|member| member.pid).collect()
    }

    fn job(&self, world: World) -> Result<Job, Error> {
        let key = self.key(&world);
        let mut members = world.members;
        members.sort_by_key(|member| (member.rank(), member.pid));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].rank() == pair[1].rank()) {
            let rank = Rank(pair[0].rank().unwrap_or(0));
            return Err(Error::SameRankTwice { rank, first: pair[0].pid, second: pair[1].pid });
        }
        let size = match members.as_slice() {
            [only] if only.identity.is_none() => Some(1),
            members => members.iter().find_map(|member| member.identity.as_ref()?.size),
        };
        let (spawned, parent) = self.parent(&members, &world.other_worlds)?;
        let ranks: Result<Vec<RankProcess>, Error> = members.into_iter().map(|member| self.rank(member)).collect();
        let (launcher, other_worlds) = (world.launcher, world.other_worlds);
        Ok(Job { launcher, ranks: ranks?, size, key, other_worlds, spawned, parent })
    }

    /// True if the members were spawned, and which of `others` are the ranks that did it.
    fn parent(&self, members: &[Member], others: &[Pid]) -> Result<(bool, Vec<Pid>), Error> {
        let Some(identity) = members.iter().find_map(|member| member.identity.as_ref()).filter(|own| own.spawned)
        else {
            return Ok((false, Vec::new()));
        };
        let mut candidates = self.members_among(others.iter().copied())?;
        match &identity.parent {
            // Keys go on behind a comma, if at all.
            Some(key) => candidates.retain(|other| other.world_key().split(',').next() == Some(key)),
            // Hydra does not say who spawned whom: it can only have been the first program, if no other was spawned.
            None => {
                let is_spawned = |other: &Member| other.identity.as_ref().is_some_and(|identity| identity.spawned);
                if candidates.iter().any(is_spawned) {
                    candidates.clear();
                }
            }
        }
        Ok((true, candidates.iter().map(|member| member.pid).collect()))
    }

    /// The launcher's own job id where there is one; otherwise the launcher, or the program, and when it started.
    fn key(&self, world: &World) -> String {
        let Some(first) = world.members.iter().min_by_key(|member| member.rank()) else { return String::new() };
        if first.has_job_id() {
            return first.world_key();
        }
        let head = world.launcher.unwrap_or(first.pid);
        format!("{},pid={head},start={}", first.world_key(), self.tree.start_time_ticks(head))
    }

    fn rank(&self, member: Member) -> Result<RankProcess, Error> {
        let (processes, pid) = (self.processes, member.pid);
        check_attachable(processes, pid)?;
        let (stat, status) = (processes.stat(pid)?, processes.status(pid)?);
        let identity = member.identity.as_ref();
        Ok(RankProcess {
            pid,
            rank: Rank(member.rank().unwrap_or(0)),
            size: identity.map_or(Some(1), |identity| identity.size),
            local_rank: identity.map_or(Some(0), |identity| identity.local_rank),
            identity_source: identity.map(|identity| identity.source),
            start_time_ticks: stat.start_time_ticks,
            executable: processes.executable(pid)?,
            arguments: processes.arguments(pid)?,
            directory: processes.directory(pid)?,
            uid: status.uids[1],
            state: stat.state,
            threads: stat.threads,
            seccomp: status.seccomp,
            shadow_stack: status.shadow_stack,
            namespaces_differ: differing_namespaces(processes, pid)?,
            cpus_allowed: status.cpus_allowed,
            last_cpu: stat.last_cpu,
            family: member.family,
            library: member.library,
        })
    }
}

fn differing_namespaces(processes: &dyn Processes, pid: Pid) -> Result<Vec<String>, Error> {
    let (own, theirs) = (processes.namespaces(processes.own_pid())?, processes.namespaces(pid)?);
    Ok(theirs.into_iter().filter(|(name, identity)| own.get(name) != Some(identity)).map(|(name, _)| name).collect())
}

#[cfg(test)]
mod tests;
