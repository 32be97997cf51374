//! A machine over one window: looked at when it begins and when it ends, the ranks' processors noted in between.
//!
//! Next: `look` for one look, `share` for what two of them say.

use crate::cpus;
use crate::crowd::{self, Demand, Processors, Wanting};
use crate::limits::Limits;
use crate::look::{Look, Machine};
use crate::share::neighbours;
use crate::topology::Topology;
use crate::whose::Own;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use trimtab_track::{ProcFs, Processes, parse_stat};
use trimtab_types::Pid;
use trimtab_types::procfs::State;
use trimtab_types::report::{Limit, NodeShare, Oversubscription, RankPlace};

/// Time between two notes of where the ranks are, and at least so much for each rank: a note takes 20 us of a processor
/// that the ranks may want.
const NOTE: Duration = Duration::from_millis(100);
const NOTE_OF_RANK: Duration = Duration::from_millis(4);

/// Figures gathered of a machine during a window.
#[derive(Clone, Debug)]
pub struct Beside {
    machine: Machine,
    ranks: Vec<(u32, Pid)>,
    own: Own,
    /// At the beginning, and at the end.
    first: Option<(Look, Limits)>,
    last: Option<(Look, Limits)>,
    /// Processors on which each rank was seen, and their clock rates.
    seen: BTreeMap<u32, BTreeSet<u32>>,
    rates_mhz: BTreeMap<u32, (f64, u32)>,
    allowed: BTreeMap<u32, String>,
    /// The same as a set, and what the ranks' threads wanted until the first look and until the latest one.
    allowed_cpus: BTreeMap<u32, BTreeSet<u32>>,
    demand_first: BTreeMap<u32, Demand>,
    demand_last: BTreeMap<u32, Demand>,
    noted: Option<Instant>,
    /// For how long job control was seen to hold each rank, seconds.
    stopped_s: BTreeMap<u32, f64>,
    /// Ranks that were held at the last note.
    held: BTreeSet<u32>,
    is_recording: bool,
}

impl Beside {
    /// The machine of these ranks, each with its process. Nothing is read yet.
    pub fn new(ranks: Vec<(u32, Pid)>, launcher: Option<Pid>) -> Beside {
        let pids: Vec<Pid> = ranks.iter().map(|(_, pid)| *pid).collect();
        Beside {
            machine: Machine::default(),
            own: Own::of(&ProcFs::new(), &pids, launcher),
            ranks,
            first: None,
            last: None,
            seen: BTreeMap::new(),
            rates_mhz: BTreeMap::new(),
            allowed: BTreeMap::new(),
            allowed_cpus: BTreeMap::new(),
            demand_first: BTreeMap::new(),
            demand_last: BTreeMap::new(),
            noted: None,
            stopped_s: BTreeMap::new(),
            held: BTreeSet::new(),
            is_recording: false,
        }
    }

    /// The window begins, unless it began no longer ago than `stale`.
    pub fn begin(&mut self, stale: Duration) {
        if self.first.as_ref().is_some_and(|(look, _)| look.at.elapsed() < stale) {
            return;
        }
        self.seen.clear();
        self.rates_mhz.clear();
        self.stopped_s.clear();
        self.held.clear();
        self.first = Some(self.look());
        self.demand_first = std::mem::take(&mut self.demand_last);
    }

    /// The recording has begun, as far as is known for the first time: as [`Beside::begin`]. Later it does nothing.
    pub fn begin_recording(&mut self, stale: Duration) {
        if !std::mem::replace(&mut self.is_recording, true) {
            self.begin(stale);
        }
    }

    /// The window goes on: where are the ranks?
    pub fn note(&mut self) {
        let rest = NOTE.max(NOTE_OF_RANK * self.ranks.len() as u32);
        if self.noted.is_none_or(|noted| noted.elapsed() >= rest) {
            self.note_places(false);
        }
    }

    /// The window has ended.
    pub fn end(&mut self) {
        if self.last.is_none() {
            self.last = Some(self.look());
        }
    }

    /// The others that were seen.
    pub fn share(&self, host: &str) -> NodeShare {
        let (Some((first, limits)), Some((last, later))) = (&self.first, &self.last) else {
            return NodeShare { host: host.to_owned(), ..NodeShare::default() };
        };
        let wanted = self.seen.values().flatten().copied().collect();
        let topology = Topology::read(&self.machine.system, &wanted);
        let names = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let (neighbours, neighbours_left_out) =
            neighbours((first, last), &self.seen, &topology, &|uid| user_name(&names, uid));
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        let worked = first.counters.until(&last.counters, seconds);
        let limits = later.since(limits);
        NodeShare {
            host: host.to_owned(),
            seconds,
            processors: self.processors(),
            busy: worked.busy,
            steal: worked.steal,
            load: last.counters.load,
            pressure: worked.pressure,
            places: self.ranks.iter().map(|(rank, _)| self.place(*rank, seconds)).collect(),
            neighbours,
            neighbours_left_out,
            oversubscribed: self.oversubscribed(&limits),
            limits,
        }
    }

    /// The ranks that share too few processors; `None`: where one of them may run is not known.
    fn oversubscribed(&self, limits: &[Limit]) -> Option<Vec<Oversubscription>> {
        let online = self.online();
        let wanting = |(rank, _): &(u32, Pid)| {
            let allowed = self.allowed_cpus.get(rank)?.intersection(&online).copied().collect();
            Some(Wanting { rank: *rank, allowed, processors: self.wanted(*rank) })
        };
        let ranks: Vec<Wanting> = self.ranks.iter().map(wanting).collect::<Option<_>>()?;
        (!online.is_empty()).then(|| crowd::oversubscribed(&ranks, limits))
    }

    /// Processors that a rank's threads wanted and had; `None`: the kernel did not say.
    fn wanted(&self, rank: u32) -> Option<Processors> {
        self.demand_first.get(&rank)?.until(self.demand_last.get(&rank)?)
    }

    fn look(&mut self) -> (Look, Limits) {
        self.note_places(true);
        let processes = ProcFs::new();
        let groups: Vec<(u32, String)> =
            self.ranks.iter().filter_map(|(rank, pid)| Some((*rank, processes.control_group(*pid).ok()?))).collect();
        let limits = Limits::read(&self.machine.groups, groups.iter().map(|(rank, text)| (*rank, text.as_str())));
        let before = self.first.as_ref().map(|(look, _)| look);
        (self.machine.look(&processes, &self.own, before), limits)
    }

    /// Where the ranks' threads are now; only their first ones if that is to be quick.
    fn note_places(&mut self, all_threads: bool) {
        let since_s = self.noted.map_or(0.0, |noted| noted.elapsed().as_secs_f64());
        for (rank, pid) in &self.ranks {
            let folder = self.machine.proc.join(pid.0.to_string());
            let stat = |file: std::path::PathBuf| parse_stat(&std::fs::read(file).ok()?);
            let on = |file: std::path::PathBuf| Some(stat(file)?.last_cpu);
            let first = stat(folder.join("stat"));
            let is_held = first.as_ref().is_some_and(|stat| stat.state == State::Stopped);
            // It was held at both ends of the time since the last note, so in between, too.
            let was_held = if is_held { !self.held.insert(*rank) } else { false };
            if !is_held {
                self.held.remove(rank);
            }
            if first.is_some() {
                *self.stopped_s.entry(*rank).or_default() += if was_held { since_s } else { 0.0 };
            }
            let mut now: BTreeSet<u32> = first.map(|stat| stat.last_cpu).into_iter().collect();
            if all_threads {
                let threads = std::fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
                now.extend(threads.filter_map(|thread| on(thread.path().join("stat"))));
                let status = ProcFs::new().status(*pid).ok();
                if let Some(status) = status {
                    self.allowed_cpus.insert(*rank, cpus::parse(&status.cpus_allowed));
                    self.allowed.insert(*rank, cpus::short(&status.cpus_allowed));
                }
                self.demand_last.insert(*rank, Demand::read(&folder));
                for cpu in &now {
                    let rate = self.rates_mhz.entry(*cpu).or_default();
                    let mhz = clock_mhz(&self.machine, *cpu);
                    *rate = mhz.map_or(*rate, |mhz| (rate.0 + mhz, rate.1 + 1));
                }
            }
            self.seen.entry(*rank).or_default().extend(now);
        }
        self.noted = Some(Instant::now());
    }

    fn place(&self, rank: u32, seconds: f64) -> RankPlace {
        let seen = self.seen.get(&rank).cloned().unwrap_or_default();
        let rates = seen.iter().filter_map(|cpu| self.rates_mhz.get(cpu)).filter(|(_, count)| *count > 0);
        let (sum, count) = rates.fold((0.0, 0u32), |(sum, count), rate| (sum + rate.0, count + rate.1));
        RankPlace {
            rank,
            cpus_allowed: self.allowed.get(&rank).cloned().unwrap_or_default(),
            cpus_seen: cpus::list(&seen),
            clock_mhz: (count > 0).then(|| sum / f64::from(count)),
            stopped_s: self.stopped_s.get(&rank).copied(),
            waited_s: self.wanted(rank).map(|some| (some.wanted - some.had) * seconds),
        }
    }

    fn processors(&self) -> Option<u32> {
        Some(self.online().len() as u32).filter(|count| *count > 0)
    }

    fn online(&self) -> BTreeSet<u32> {
        cpus::parse(&std::fs::read_to_string(self.machine.system.join("cpu/online")).unwrap_or_default())
    }
}

/// The clock rate of a processor now; `None` where the kernel does not say, as in most virtual machines.
fn clock_mhz(machine: &Machine, cpu: u32) -> Option<f64> {
    let path = machine.system.join(format!("cpu/cpu{cpu}/cpufreq/scaling_cur_freq"));
    let khz: f64 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
    (khz > 0.0).then_some(khz / 1e3)
}

/// From the text of `/etc/passwd`; the number where the user is not in it.
fn user_name(passwd: &str, uid: u32) -> String {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    };
    passwd.lines().find_map(name).unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// A process that computes until it is dropped, or the test is gone.
    struct Busy(Child);

    impl Busy {
        fn start() -> Busy {
            Busy(
                Command::new("sh")
                    .args(["-c", "while kill -0 $PPID; do :; done 2>/dev/null"])
                    .spawn()
                    .expect("a shell"),
            )
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _gone = self.0.kill();
            let _reaped = self.0.wait();
        }
    }

    #[test]
    fn a_rank_that_job_control_holds_is_seen_to_be_held() {
        let busy = Busy::start();
        let pid = Pid(i32::try_from(busy.0.id()).expect("a pid"));
        let signal = |name: &str| {
            let sent = std::process::Command::new("kill").args(["-s", name, &pid.0.to_string()]).status();
            assert!(sent.expect("kill runs").success());
        };
        let state = || ProcFs::new().stat(pid).expect("its state").state;
        let mut beside = Beside::new(vec![(3, pid)], None);
        beside.begin(Duration::ZERO);
        signal("STOP");
        while state() != State::Stopped {
            std::thread::sleep(Duration::from_millis(1));
        }
        beside.note_places(false);
        std::thread::sleep(Duration::from_millis(20));
        beside.note_places(false);
        signal("CONT");
        while state() == State::Stopped {
            std::thread::sleep(Duration::from_millis(1));
        }
        beside.end();
        let held_s = beside.share("n1").places[0].stopped_s.expect("it was looked at");
        let at_most_s = beside.share("n1").seconds;
        assert!((0.02..=at_most_s).contains(&held_s), "{held_s} of {at_most_s}");
    }

    #[test]
    fn this_machine_is_seen() {
        let busy = Busy::start();
        let pid = Pid(i32::try_from(busy.0.id()).expect("a pid"));
        let mut beside = Beside::new(vec![(3, pid)], None);
        beside.begin(Duration::ZERO);
        let worked = |pid: Pid| ProcFs::new().stat(pid).expect("its state").cpu_ticks;
        let before = worked(pid);
        while worked(pid) < before + 20 {
            beside.note();
            std::thread::sleep(Duration::from_millis(5));
        }
        beside.end();
        let share = beside.share("n1");
        assert_eq!((share.host.as_str(), share.places.len()), ("n1", 1));
        // Twenty ticks of a hundredth: the first of them may have been under way.
        assert!(share.seconds > 0.15 && share.processors > Some(0), "{share:?}");
        assert!(share.busy.is_some_and(|busy| busy > 0.0 && busy <= 1.0), "{share:?}");
        let place = &share.places[0];
        let allowed = cpus::parse(&place.cpus_allowed);
        assert!(!place.cpus_seen.is_empty() && cpus::parse(&place.cpus_seen).is_subset(&allowed), "{place:?}");
        assert!(
            share
                .neighbours
                .iter()
                .all(|one| one.program != "sh" || one.kind == trimtab_types::report::NeighbourKind::User),
            "{share:?}"
        );
    }

    #[test]
    fn another_users_work_is_named() {
        let busy = Busy::start();
        let mut beside = Beside::new(Vec::new(), None);
        // We are our own, and so is what we start: here it is to be somebody else's.
        beside.own = Own::default();
        beside.begin(Duration::ZERO);
        let pid = Pid(i32::try_from(busy.0.id()).expect("a pid"));
        let worked = |pid: Pid| ProcFs::new().stat(pid).expect("its state").cpu_ticks;
        let before = worked(pid);
        while worked(pid) < before + 20 {
            std::thread::sleep(Duration::from_millis(5));
        }
        beside.end();
        let share = beside.share("n1");
        let own = ProcFs::new().status(ProcFs::new().own_pid()).expect("our status").uids[1];
        let name = user_name(&std::fs::read_to_string("/etc/passwd").unwrap_or_default(), own);
        let found = share.neighbours.iter().find(|one| one.name == name);
        assert!(found.is_some_and(|one| one.busy_processors > Some(0.02) && one.processes > 0), "{share:?}");
    }

    #[test]
    fn users_have_names() {
        let text = "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1000::/:\n";
        for (uid, expected) in [(0, "root"), (1000, "ann"), (7, "7")] {
            assert_eq!(user_name(text, uid), expected);
        }
    }
}
