//! The share of a processor that a new process would get at a nice level, from what passed between two looks.
//!
//! Three ways, from the best to the simplest: every thread's wish for processors shared out by weights (`tasks`), the kernel's
//! sums of user, system and idle time (`vmstat`), and the load of the last minute (`load`). The latter two are those of the
//! Network Weather Service, for several processors, and know no nice level.
//!
//! Next: `fair`, which shares out; `sensor`, which corrects by probes.

use crate::cgroup::parse_cpus;
use crate::counters::{Processors, Ticks, parse_processors};
use crate::fair::{self, Group, Wanting};
use crate::figure::NoFigure;
use crate::groups::{GroupFacts, Groups, USUAL_WEIGHT, groups_sessions, weight_of_nice};
use crate::places::{Beside, Places};
use crate::spin::Spun;
use crate::tasks::{Demand, Tasks};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Nice levels there are.
pub const NICE_LEVELS: std::ops::RangeInclusive<i32> = -20..=19;
/// The weight of a process of the idle class.
const IDLE_WEIGHT: f64 = 3.0;
/// Real-time processes come before all others.
const REAL_TIME_WEIGHT: f64 = 1e9;
/// Processors worked by nobody who was seen at both ends are other people's if they are more than this: our own look is less.
const UNSEEN_MIN: f64 = 0.05;
/// Below this share of idle time processors are taken to be wanted by all who run.
const IDLE_MIN: f64 = 0.05;

/// How a share was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Threads' times and weights.
    Tasks,
    /// User, system and idle time.
    Vmstat,
    /// The load of the last minute.
    Load,
}

impl Way {
    /// All, the best first.
    pub const ALL: [Way; 3] = [Way::Tasks, Way::Vmstat, Way::Load];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Way::Tasks => "tasks",
            Way::Vmstat => "vmstat",
            Way::Load => "load",
        }
    }
}

/// The share at one nice level, in every way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// The nice level.
    pub nice: i32,
    /// The share by each way, 0 to 1.
    pub said: Vec<(Way, f64)>,
    /// Why the others say nothing.
    pub silent: Vec<(Way, NoFigure)>,
    /// The latest probe at this level.
    pub probe: Option<Spun>,
    /// Share of the processors' work that was of processes which could not be seen, 0 to 1.
    pub unseen: f64,
}

/// All that is read of processors at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub tasks: Tasks,
    pub processors: Result<Processors, NoFigure>,
    pub load: Result<f64, NoFigure>,
}

impl Moment {
    pub(crate) fn now(places: &Places) -> Moment {
        let text = |name: &str| places.proc_text(name).map_err(|error| NoFigure::unreadable(name, &error));
        let processors = text("stat").and_then(|text| parse_processors(&text).ok_or(NoFigure::NoProcessor));
        let load = text("loadavg").and_then(|text| {
            let first = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
            first.filter(|load| *load >= 0.0).ok_or(NoFigure::NoLoad)
        });
        Moment { tasks: Tasks::look(places), processors, load }
    }
}

/// The time between two moments.
pub(crate) struct Passed<'a> {
    places: &'a Places,
    beside: Beside,
    demands: Vec<Demand>,
    each: Vec<(u32, Ticks)>,
    running: f64,
    load: &'a Result<f64, NoFigure>,
    /// Why processors' counters say nothing.
    why_not: Option<NoFigure>,
}

impl<'a> Passed<'a> {
    pub(crate) fn between(places: &'a Places, beside: Beside, before: &Moment, after: &'a Moment) -> Passed<'a> {
        let seconds = after.tasks.at.duration_since(before.tasks.at).as_secs_f64().max(1e-6);
        let (each, running, why_not) = match (&before.processors, &after.processors) {
            (Ok(first), Ok(last)) => {
                let since = |(number, ticks): (&u32, &Ticks)| Some((*number, ticks.since(first.each.get(number)?)?));
                // Whoever reads runs, too.
                let others = |at: &Processors| f64::from(at.running.saturating_sub(1));
                (last.each.iter().filter_map(since).collect(), f64::midpoint(others(first), others(last)), None)
            }
            (Err(why), _) | (_, Err(why)) => (Vec::new(), 0.0, Some(why.clone())),
        };
        let demands = before.tasks.until(&after.tasks, seconds);
        Passed { places, beside, demands, each, running, load: &after.load, why_not }
    }

    /// The shares at these levels.
    pub(crate) fn shares(&self, levels: &[i32]) -> Vec<Share> {
        let quota = self.own_quota();
        let by_tasks = self.by_tasks(levels);
        let (by_vmstat, by_load) = (self.by_vmstat(), self.by_load());
        let share = |(at, nice): (usize, &i32)| {
            let mut share = Share { nice: *nice, unseen: self.unseen_share(), ..Share::default() };
            let mut say = |way: Way, said: Result<f64, NoFigure>| match said {
                Ok(value) => share.said.push((way, value.clamp(0.0, 1.0).min(quota))),
                Err(why) => share.silent.push((way, why)),
            };
            say(Way::Tasks, by_tasks.as_ref().map(|all| all[at]).map_err(Clone::clone));
            say(Way::Vmstat, by_vmstat.clone());
            say(Way::Load, by_load.clone());
            share
        };
        levels.iter().enumerate().map(share).collect()
    }

    fn online(&self) -> Result<Vec<(u32, f64)>, NoFigure> {
        if self.each.is_empty() {
            return Err(self.why_not.clone().unwrap_or(NoFigure::ProcessorsWentBack));
        }
        let gives = |(number, ticks): &(u32, Ticks)| {
            let lost = (ticks.interrupts + ticks.stolen) as f64 / ticks.all().max(1) as f64;
            (*number, (1.0 - lost).max(0.0))
        };
        Ok(self.each.iter().map(gives).collect())
    }

    /// Shares of all time of the processors on which a newcomer may run: user, system, idle.
    fn spent(&self) -> Result<[f64; 3], NoFigure> {
        self.online()?;
        let allowed = self.allowed_of(&self.beside.name());
        let here = self.each.iter().filter(|(number, _)| allowed.as_ref().is_none_or(|all| all.contains(number)));
        let mut sum = Ticks::default();
        for (_, ticks) in here {
            sum.user += ticks.user;
            sum.system += ticks.system;
            sum.idle += ticks.idle;
            sum.interrupts += ticks.interrupts;
            sum.stolen += ticks.stolen;
        }
        if sum.all() == 0 {
            return Err(NoFigure::NoTick);
        }
        Ok([sum.user, sum.system, sum.idle].map(|ticks| ticks as f64 / sum.all() as f64))
    }

    /// Processors on which a newcomer may run.
    fn count(&self) -> f64 {
        let allowed = self.allowed_of(&self.beside.name());
        let is_here = |number: &u32| allowed.as_ref().is_none_or(|all| all.contains(number));
        self.each.iter().filter(|(number, _)| is_here(number)).count() as f64
    }

    fn by_vmstat(&self) -> Result<f64, NoFigure> {
        let [user, system, idle] = self.spent()?;
        let among = self.running + 1.0;
        Ok(self.count() * (idle + user / among + user * system / among))
    }

    fn by_load(&self) -> Result<f64, NoFigure> {
        let load = self.load.clone()?;
        self.online()?;
        Ok(self.count() / (load + 1.0))
    }

    fn by_tasks(&self, levels: &[i32]) -> Result<Vec<f64>, NoFigure> {
        let processors = self.online()?;
        let mut groups = Groups::default();
        let sessions = groups_sessions(self.places);
        let mut all: Vec<Wanting> = Vec::new();
        for demand in &self.demands {
            all.push(self.wanting(demand, &mut groups, sessions));
        }
        all.extend(self.unseen(&mut groups, sessions));
        let own = self.path_of(&self.beside.name(), &mut groups, sessions);
        let allowed = self.allowed_of(&self.beside.name());
        let of = |facts: &GroupFacts| Group { weight: facts.weight, quota: facts.quota };
        let facts: Vec<Group> = groups.facts.iter().map(of).collect();
        let share = |nice: &i32| {
            let weight = weight_of_nice(*nice);
            let new = Wanting { weight, demand: 1.0, groups: own.clone(), allowed: allowed.clone() };
            let all: Vec<Wanting> = all.iter().cloned().chain([new]).collect();
            fair::newcomer(&all, &facts, &processors)
        };
        Ok(levels.iter().map(share).collect())
    }

    fn wanting(&self, demand: &Demand, groups: &mut Groups, sessions: bool) -> Wanting {
        let name = demand.pid.0.to_string();
        let weight = match (demand.is_real_time, demand.is_idle_class) {
            (true, _) => REAL_TIME_WEIGHT,
            (false, true) => IDLE_WEIGHT,
            (false, false) => weight_of_nice(demand.nice),
        };
        let groups = if demand.is_real_time { Vec::new() } else { self.path_of(&name, groups, sessions) };
        Wanting { weight, demand: demand.wanted(), groups, allowed: self.allowed_of(&name) }
    }

    /// Processors that were worked, and those of them that no process which was seen has worked.
    fn worked(&self) -> (f64, f64) {
        let all = self.each.iter().map(|(_, ticks)| ticks.all()).sum::<u64>().max(1) as f64;
        let worked = self.each.iter().map(|(_, ticks)| ticks.user + ticks.system).sum::<u64>() as f64 / all;
        let worked = worked * self.each.len() as f64;
        (worked, worked - self.demands.iter().map(|demand| demand.ran).sum::<f64>())
    }

    fn unseen_share(&self) -> f64 {
        let (worked, unseen) = self.worked();
        if unseen < UNSEEN_MIN { 0.0 } else { (unseen / worked).clamp(0.0, 1.0) }
    }

    /// Work of processes that came and went between the looks, and of the kernel: in a session of its own.
    fn unseen(&self, groups: &mut Groups, sessions: bool) -> Vec<Wanting> {
        let all = self.each.iter().map(|(_, ticks)| ticks.all()).sum::<u64>().max(1) as f64;
        let share = |of: fn(&Ticks) -> u64| self.each.iter().map(|(_, ticks)| of(ticks)).sum::<u64>() as f64 / all;
        let (_, unseen) = self.worked();
        if unseen < UNSEEN_MIN {
            return Vec::new();
        }
        let wanted: f64 = self.demands.iter().map(Demand::wanted).sum();
        let is_full = share(|ticks| ticks.idle) < IDLE_MIN;
        let wanted = if is_full { unseen.max(self.running - wanted) } else { unseen };
        let count = wanted.ceil().max(1.0);
        let path = if sessions {
            let facts = GroupFacts { weight: USUAL_WEIGHT, quota: f64::INFINITY };
            vec![groups.add("unseen".to_owned(), facts)]
        } else {
            Vec::new()
        };
        let one = Wanting { weight: USUAL_WEIGHT, demand: wanted / count, groups: path, allowed: None };
        vec![one; count as usize]
    }

    fn path_of(&self, process: &str, groups: &mut Groups, sessions: bool) -> Vec<usize> {
        let read = |file: &str| self.places.proc_text(&format!("{process}/{file}")).ok();
        let autogroup = if sessions { read("autogroup") } else { None };
        read("cgroup").map_or_else(Vec::new, |text| groups.path(self.places, &text, autogroup.as_deref()))
    }

    /// Processors on which a process may run; `None`: not known, so all.
    fn allowed_of(&self, process: &str) -> Option<BTreeSet<u32>> {
        let text = self.places.proc_text(&format!("{process}/status")).ok()?;
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(parse_cpus(list.trim())).filter(|set| !set.is_empty())
    }

    /// The most that the newcomer's groups allow.
    fn own_quota(&self) -> f64 {
        let mut groups = Groups::default();
        let path = self.path_of(&self.beside.name(), &mut groups, false);
        path.iter().map(|group| groups.facts[*group].quota).fold(1.0, f64::min)
    }
}
