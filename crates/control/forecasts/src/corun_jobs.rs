//! Windows of jobs that share nodes, as a forecast of all of them takes them.
//!
//! A window together says how long an iteration takes beside the others and how many come; one alone says how long it takes
//! alone, and how each rank uses its processors. Next: `trimtab-corun`, which forecasts.

use trimtab_corun::{Between, Job, Met, Profile, RankUse, Remaining, Unknown};
use trimtab_sensors::cgroup::parse_cpus;
use trimtab_types::report::{Closeness, Neighbour, NodeShare, RankPlace, RankTotal, Report};

/// Somebody who kept less than this of a processor busy is no company.
const BUSY_MIN: f64 = 0.05;

/// Windows that can't be of jobs which share nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorunError {
    /// Nobody else is where it is.
    #[error(
        "{name} shares no node with another of these jobs: it was on {hosts}; say on which nodes they meet (--on, \"on\")"
    )]
    Apart {
        /// The job.
        name: String,
        /// Its hosts.
        hosts: String,
    },
    /// Other nodes than it has.
    #[error("{name} was on {has} nodes, and {named} are named (--on, \"on\")")]
    Nodes {
        /// The job.
        name: String,
        /// Nodes of its window.
        has: usize,
        /// Nodes that were named.
        named: usize,
    },
    /// They were not there at the same time.
    #[error("{name} had ended before all were measured: these windows are not of jobs that ran together")]
    NotTogether {
        /// The job.
        name: String,
    },
}

/// One job as it is known.
#[derive(Clone, Debug)]
pub struct CorunSide {
    /// Its name, for sentences.
    pub name: String,
    /// A window of it; of jobs that run together one with all of them.
    pub now: Report,
    /// It was measured together with the others.
    pub is_together: bool,
    /// A run of it that begins anew: all of its iterations come.
    pub is_new: bool,
    /// A window alone, or why there is none; not asked for where `now` is one.
    pub alone: Result<Report, Unknown>,
    /// Its program's answer to pressure on the host on which they meet; `None`: not probed, or it runs together with the others.
    pub profile: Option<Profile>,
    /// How it got on beside others of these when they met before; empty: nobody knows, or it runs together with them.
    pub met: Vec<Met>,
    /// It begins so many seconds from now.
    pub begins_s: f64,
}

impl CorunSide {
    /// The window alone.
    pub fn alone(&self) -> Result<&Report, Unknown> {
        if self.is_together { self.alone.as_ref().map_err(Unknown::clone) } else { Ok(&self.now) }
    }

    /// When its window ended, seconds since 1970; `None`: not known.
    pub fn window_ended_s(&self) -> Option<f64> {
        Some(self.now.window.started_unix_s? + self.now.window.duration_s)
    }
}

/// Jobs for a forecast at a moment, seconds since 1970; `None`: that of the newest window. `on` names the nodes on which they
/// meet, in the order of each job's own.
///
/// # Errors
/// [`CorunError`]: windows that don't fit together.
pub fn corun_jobs(sides: &[CorunSide], at_unix_s: Option<f64>, on: &[String]) -> Result<Vec<Job>, CorunError> {
    let ends = sides.iter().map(CorunSide::window_ended_s);
    // Without the moment of each nobody knows how long ago the others were.
    let newest = ends.clone().collect::<Option<Vec<f64>>>().and_then(|all| all.into_iter().reduce(f64::max));
    let hosts = sides.iter().map(|side| hosts(side, on)).collect::<Result<Vec<_>, CorunError>>()?;
    meet(sides, &hosts)?;
    let mut jobs = Vec::new();
    for ((side, hosts), ended) in sides.iter().zip(&hosts).zip(ends) {
        let at_s = at_unix_s.or(newest).filter(|_| !side.is_new);
        let since_s = at_s.zip(ended).map_or(0.0, |(at_s, ended)| (at_s - ended).max(0.0));
        let job = job(side, hosts, since_s);
        let is_over = |count: u64| job.together_s.is_some_and(|each| since_s >= count as f64 * each.value);
        if since_s > 0.0 && at_unix_s.is_none() && job.remaining.count().is_some_and(is_over) {
            return Err(CorunError::NotTogether { name: side.name.clone() });
        }
        jobs.push(job);
    }
    let stays: Vec<Stay> = sides.iter().zip(&jobs).map(|(side, job)| Stay::of(side, job)).collect();
    for (at, job) in jobs.iter_mut().enumerate() {
        job.left_alone_by = left_alone_by(&stays, at).map(|other| sides[other].name.clone());
    }
    Ok(jobs)
}

/// The end of a job's window, and of its iterations by its pace in it, seconds since 1970; `None`: not known, or it is not of jobs that
/// run together.
struct Stay {
    window_ended_s: Option<f64>,
    gone_s: Option<f64>,
}

impl Stay {
    fn of(side: &CorunSide, job: &Job) -> Stay {
        let window_ended_s = side.window_ended_s().filter(|_| side.is_together);
        let left_s = job.together_s.zip(job.remaining.count()).map(|(each, count)| count as f64 * each.value);
        Stay { window_ended_s, gone_s: window_ended_s.zip(left_s).map(|(ended_s, left_s)| ended_s + left_s) }
    }
}

/// Of jobs whose windows were together, one that had done its iterations before the window of this one ended.
fn left_alone_by(stays: &[Stay], at: usize) -> Option<usize> {
    let window_ended_s = stays[at].window_ended_s?;
    let is_gone = |other: &usize| stays[*other].gone_s.is_some_and(|gone_s| gone_s < window_ended_s);
    (0..stays.len()).filter(|other| *other != at).find(is_gone)
}

/// The hosts of a job's window, and where each stands for.
fn hosts(side: &CorunSide, on: &[String]) -> Result<Vec<(String, String)>, CorunError> {
    let own = &side.now.job.hosts;
    if on.is_empty() {
        return Ok(own.iter().map(|host| (host.clone(), host.clone())).collect());
    }
    if own.len() != on.len() {
        return Err(CorunError::Nodes { name: side.name.clone(), has: own.len(), named: on.len() });
    }
    Ok(own.iter().cloned().zip(on.iter().cloned()).collect())
}

/// Each job is on a node with another one.
fn meet(sides: &[CorunSide], hosts: &[Vec<(String, String)>]) -> Result<(), CorunError> {
    let is_on = |job: usize, host: &str| hosts[job].iter().any(|(_, other)| other == host);
    for (at, side) in sides.iter().enumerate().filter(|_| sides.len() > 1) {
        let meets = |other: usize| other != at && hosts[at].iter().any(|(_, host)| is_on(other, host));
        if !(0..sides.len()).any(meets) {
            let hosts = side.now.job.hosts.join(", ");
            return Err(CorunError::Apart { name: side.name.clone(), hosts });
        }
    }
    Ok(())
}

fn job(side: &CorunSide, hosts: &[(String, String)], since_s: f64) -> Job {
    let alone = side.alone().and_then(|alone| match comparable(alone, &side.now) {
        None => Ok(alone),
        Some(why) => Err(why),
    });
    let each_alone = alone.clone().and_then(each);
    let (together_s, remaining) = match each(&side.now) {
        Ok(together_s) => (together_s, remaining(side)),
        // The iterations that come are of a loop that the window must have counted.
        Err(why) => (Between { value: 1.0, ends: None }, Remaining::Unknown(why)),
    };
    let together_s = side.is_together.then_some(together_s);
    let counts = each(&side.now).is_ok();
    Job {
        name: side.name.clone(),
        begins_s: side.begins_s,
        since_s,
        remaining,
        alone_s: if counts { each_alone } else { each_alone.and(each(&side.now)) },
        together_s,
        left_alone_by: None,
        ranks: alone.and_then(|alone| ranks(alone, hosts)),
        profile: side.profile.clone().filter(|_| !side.is_together),
        met: if side.is_together { Vec::new() } else { side.met.clone() },
    }
}

/// The time of an iteration, or why the window does not say it.
fn each(report: &Report) -> Result<Between, Unknown> {
    let window = &report.window;
    if !window.valid {
        return Err(Unknown::NotValid);
    }
    match report.time_per_iteration_s.filter(|_| window.iterations.is_some()) {
        Some(estimate) => Ok(Between::of_mean(estimate.mean, estimate.half_width_95)),
        None => Err(Unknown::NoIterations),
    }
}

fn remaining(side: &CorunSide) -> Remaining {
    let Some(progress) = &side.now.window.progress else {
        return Remaining::Unknown(Unknown::NoLoop);
    };
    if side.now.window.is_of_inner_loop() {
        return Remaining::Unknown(Unknown::InnerLoop);
    }
    let at_most = match side.is_new {
        true => progress.total_at_most,
        false => progress.total_at_most.zip(progress.done).and_then(|(all, done)| all.checked_sub(done)),
    };
    match (if side.is_new { progress.total } else { progress.remaining }, at_most) {
        (Some(exactly), _) => Remaining::Exactly(exactly),
        (None, Some(at_most)) => Remaining::AtMost(at_most),
        (None, None) => Remaining::Unknown(Unknown::LoopSilent { explanation: progress.explanation.clone() }),
    }
}

/// Why times of two windows can't be compared; `None`: they can.
pub fn comparable(alone: &Report, together: &Report) -> Option<Unknown> {
    if alone.job.ranks != together.job.ranks {
        return Some(Unknown::OtherRanks { alone: alone.job.ranks, now: together.job.ranks });
    }
    let counted = |report: &Report| (report.window.main_loop.clone(), report.window.marker.clone());
    (counted(alone) != counted(together)).then_some(Unknown::OtherLoop)
}

/// Each rank's use of processors in a window alone.
fn ranks(report: &Report, hosts: &[(String, String)]) -> Result<Vec<RankUse>, Unknown> {
    if report.reduced.is_some() {
        return Err(Unknown::RanksLeftOut);
    }
    if report.ranks.is_empty() {
        return Err(Unknown::NoRank);
    }
    report.ranks.iter().map(|rank| rank_use(report, rank, hosts)).collect()
}

fn rank_use(report: &Report, rank: &RankTotal, hosts: &[(String, String)]) -> Result<RankUse, Unknown> {
    let no_place = || Unknown::NoPlace { rank: rank.rank };
    let node = report.nodes.iter().find(|node| node.host == rank.host).ok_or_else(no_place)?;
    let place = node.places.iter().find(|place| place.rank == rank.rank).ok_or_else(no_place)?;
    let mut processors: Vec<u32> = parse_cpus(&place.cpus_allowed).into_iter().collect();
    // Kernels allow processors that the machine does not have.
    processors.truncate(node.processors.map_or(usize::MAX, |count| count.max(1) as usize));
    if processors.is_empty() {
        return Err(no_place());
    }
    let cpu_s = rank.cpu_s.filter(|_| rank.duration_s > 0.0);
    let cpu_s = cpu_s.ok_or(Unknown::NoTime { rank: rank.rank })?;
    let wanted = cpu_s / rank.duration_s + waited(node, place);
    let computing = rank.communication_s.map(|communication_s| {
        // Communication of one thread, which may poll all the time or sleep: time outside of it is what it may have computed in.
        wanted.min((wanted.ceil().max(1.0) - communication_s / rank.duration_s).max(0.0))
    });
    let host = hosts.iter().find(|(own, _)| *own == rank.host).map_or(&rank.host, |(_, meets)| meets).clone();
    Ok(RankUse { host, processors, wanted, computing })
}

/// Processors that a rank's threads were ready to use and did not get, mean.
fn waited(node: &NodeShare, place: &RankPlace) -> f64 {
    place.waited_s.filter(|_| node.seconds > 0.0).map_or(0.0, |waited_s| waited_s / node.seconds)
}

/// Others who kept processors of a job's ranks busy in its window: it was not alone. `None`: the window does not say.
pub fn company(report: &Report) -> Option<Vec<String>> {
    company_by(report, |one| format!("{} ({})", one.program, one.user))
}

/// The same by the short names of their programs.
pub(crate) fn company_programs(report: &Report) -> Option<Vec<String>> {
    company_by(report, |one| one.program.clone())
}

fn company_by(report: &Report, name: impl Fn(&Neighbour) -> String) -> Option<Vec<String>> {
    if report.nodes.is_empty() {
        return None;
    }
    let is_company = |one: &&Neighbour| {
        matches!(one.shares, Closeness::Core | Closeness::Smt)
            && one.busy_processors.is_none_or(|busy| busy >= BUSY_MIN)
    };
    let all = report.nodes.iter().flat_map(|node| node.neighbours.iter().filter(is_company));
    let mut names: Vec<String> = all.map(name).collect();
    names.sort();
    names.dedup();
    Some(names)
}

/// Facts that a forecast of a job does not take into account, in sentences.
pub fn corun_cautions(side: &CorunSide) -> Vec<String> {
    let mut said = Vec::new();
    if let Ok(alone) = side.alone() {
        match company(alone) {
            Some(names) if !names.is_empty() => {
                said.push(format!("in its window alone {} used its processors, too", names.join(", ")));
            }
            _ => {}
        }
        let limited = |node: &NodeShare| node.limits.iter().any(|limit| limit.processors.is_some());
        if alone.nodes.iter().any(limited) {
            said.push("limits of its control group are not modelled".to_owned());
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_lasted_longer_than_another_job_is_not_beside_it() {
        let stay = |window_ended_s: f64, left_s: f64| Stay {
            window_ended_s: Some(window_ended_s),
            gone_s: Some(window_ended_s + left_s),
        };
        let stays = [stay(100.0, 3.0), stay(104.0, 50.0), Stay { window_ended_s: None, gone_s: None }];
        assert_eq!([0, 1, 2].map(|at| left_alone_by(&stays, at)), [None, Some(0), None], "the first was over at 103");
        let stays = [stay(100.0, 5.0), stay(104.0, 50.0)];
        assert_eq!([0, 1].map(|at| left_alone_by(&stays, at)), [None, None]);
    }
}
