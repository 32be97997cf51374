//! All sensors of a machine together, looked at again and again.
//!
//! Each look says what passed since the one before. A probe corrects the shares of processors at its nice level until the next
//! one: the way that was nearer to probes so far is taken, and what it was off by on average is added. A probe of few turns says
//! little, and counts for little.
//!
//! Next: `share` for processors, `memory` and `disks` for the rest.

use crate::cgroup;
use crate::counters::{Pressure, parse_pressure};
use crate::disks::{self, Disks};
use crate::figure::{Figure, NoFigure};
use crate::memory;
use crate::places::{Beside, Places};
use crate::share::{Moment, Passed, Share, Way};
use crate::spin::Spun;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::time::Instant;
use trimtab_types::Pid;

/// Resources whose pressure the kernel counts, by the names of its files.
const PRESSURES: [&str; 3] = ["cpu", "io", "memory"];
/// Turns of a probe after which it counts half.
const TURNS_HALF: f64 = 8.0;
/// A probe that never waited for a processor is worth so many turns.
const TURNS_ALONE: f64 = 8.0;
/// Weight of a probe's error once there is one more.
const KEEP: f64 = 0.8;
/// Where more of the work than this is of processes that were not seen, the figure says so.
const UNSEEN_TOLD: f64 = 0.25;
/// Another way must have been so much nearer before it is taken in place of threads' times, and over so many probes.
const NEARER: f64 = 0.5;
const PROBES_MIN: u32 = 5;

/// The sensors of one machine.
#[derive(Debug)]
pub struct Sensor {
    places: Places,
    beside: Beside,
    /// The latest look, and the one before it.
    before: Option<Look>,
    earlier: Option<Look>,
    records: BTreeMap<i32, Record>,
}

/// Everything at one moment.
#[derive(Debug)]
struct Look {
    at: Instant,
    moment: Moment,
    pressures: [Result<Pressure, NoFigure>; 3],
    disks: Disks,
}

/// How probes at one nice level compared.
#[derive(Clone, Debug, Default)]
struct Record {
    probes: u32,
    latest: Option<(Instant, Spun)>,
    /// Of each way: how far it was off, and how far on average with its sign.
    errors: BTreeMap<Way, (f64, f64)>,
}

/// One reading of all sensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Since the look before, seconds.
    pub seconds: f64,
    /// Shares of processors, one for each level that was asked for.
    pub shares: Vec<Share>,
    /// The figure for each of them.
    pub cpu: Vec<Figure>,
    /// Memory, bytes.
    pub memory_free_bytes: Figure,
    /// Share of the time in which some process waited: for a processor, for I/O, for memory.
    pub pressures: [Figure; 3],
    /// See there.
    pub read_bytes_per_s: Figure,
    /// Of all disks.
    pub written_bytes_per_s: Figure,
    /// Share of the time in which the busiest disk had something to do.
    pub disk_busy: Figure,
    /// Processor time that this look took, seconds.
    pub cost_cpu_s: f64,
}

impl Sensor {
    /// Of this machine, for a process beside somebody.
    pub fn new(places: Places, beside: Beside) -> Sensor {
        Sensor { places, beside, before: None, earlier: None, records: BTreeMap::new() }
    }

    /// Looks for the first time: what comes afterwards is measured from here.
    pub fn begin(&mut self) {
        self.before = Some(self.look());
    }

    /// Looks again; `None`: there was no look before.
    pub fn read(&mut self, levels: &[i32]) -> Option<Reading> {
        let begun = own_cpu_s();
        let after = self.look();
        self.earlier = Some(self.before.replace(after)?);
        let (before, after) = (self.earlier.as_ref()?, self.before.as_ref()?);
        let seconds = after.at.duration_since(before.at).as_secs_f64().max(1e-6);
        let shares = self.shares(before, after, levels);
        let cpu = shares.iter().map(|share| self.figure(share)).collect();
        let rates = disks::rates(&before.disks, &after.disks, seconds);
        let pressures = std::array::from_fn(|at| pressure(&before.pressures[at], &after.pressures[at], seconds));
        Some(Reading {
            seconds,
            shares,
            cpu,
            memory_free_bytes: memory::free(&self.places, self.cgroup().as_deref()),
            pressures,
            read_bytes_per_s: rates.read_bytes_per_s,
            written_bytes_per_s: rates.written_bytes_per_s,
            disk_busy: rates.busy,
            cost_cpu_s: own_cpu_s() - begun,
        })
    }

    /// The share at another level, by the latest two looks; `None`: there weren't two.
    pub fn latest_at(&self, nice: i32) -> Option<(Share, Figure)> {
        let share = self.shares(self.earlier.as_ref()?, self.before.as_ref()?, &[nice]).pop()?;
        let figure = self.figure(&share);
        Some((share, figure))
    }

    fn shares(&self, before: &Look, after: &Look, levels: &[i32]) -> Vec<Share> {
        let mut shares = Passed::between(&self.places, self.beside, &before.moment, &after.moment).shares(levels);
        for share in &mut shares {
            share.probe = self.records.get(&share.nice).and_then(|record| Some(record.latest?.1));
        }
        shares
    }

    /// A probe came right behind a reading: the shares at its level are corrected from now on.
    pub fn correct(&mut self, share: &Share, spun: Spun) -> Figure {
        let record = self.records.entry(share.nice).or_default();
        let turns = if spun.turns == 0 { TURNS_ALONE } else { f64::from(spun.turns) };
        let trust = turns / (turns + TURNS_HALF);
        record.probes += 1;
        record.latest = Some((Instant::now(), spun));
        for (way, said) in &share.said {
            let error = spun.share - said;
            let is_new = !record.errors.contains_key(way);
            let (off, bias) = record.errors.entry(*way).or_insert((error.abs(), 0.0));
            if !is_new {
                *off = KEEP * *off + (1.0 - KEEP) * error.abs();
            }
            *bias += trust * (error - *bias);
        }
        let share = Share { probe: Some(spun), ..share.clone() };
        self.figure(&share)
    }

    fn figure(&self, share: &Share) -> Figure {
        let record = self.records.get(&share.nice);
        let Some((way, said)) = best(share, record) else {
            let silent = share.silent.iter().map(|(way, why)| (way.word(), why.clone()));
            return Figure::none(&NoFigure::NoWay(silent.collect()));
        };
        let way_said = match share.unseen {
            unseen if way == Way::Tasks && unseen > UNSEEN_TOLD => {
                format!(
                    "{}, but {:.0}% of the work is of processes that can't be seen here",
                    way.word(),
                    100.0 * unseen
                )
            }
            _ => way.word().to_owned(),
        };
        let bias = record.and_then(|record| Some(record.errors.get(&way)?.1));
        match bias.zip(record.and_then(|record| record.latest)) {
            Some((bias, (at, _))) => {
                let how = format!("{way_said}, corrected by probes, {:.0} s ago", at.elapsed().as_secs_f64());
                Figure::of((said + bias).clamp(0.0, 1.0), how)
            }
            None => Figure::of(said, way_said),
        }
    }

    fn look(&self) -> Look {
        let pressures = PRESSURES.map(|name| self.pressure_text(name));
        let disks = disks::look(&self.places);
        Look { at: Instant::now(), moment: Moment::now(&self.places), pressures, disks }
    }

    /// Of the control group that is asked about where it has one, else of the machine.
    fn pressure_text(&self, name: &str) -> Result<Pressure, NoFigure> {
        let own = match self.beside {
            Beside::Process(_) => self.cgroup().and_then(|text| {
                let folders = cgroup::folders(&self.places.groups, &text, name);
                std::fs::read_to_string(folders.first()?.join(format!("{name}.pressure"))).ok()
            }),
            Beside::Us => None,
        };
        let file = format!("pressure/{name}");
        let text = own.map_or_else(|| self.places.proc_text(&file), Ok);
        let text = text.map_err(|error| NoFigure::unreadable(&file, &error))?;
        parse_pressure(&text).ok_or_else(|| NoFigure::NoPressure { name: name.to_owned() })
    }

    fn cgroup(&self) -> Option<String> {
        match self.beside {
            Beside::Us => self.places.proc_text("self/cgroup").ok(),
            Beside::Process(pid) => self.places.text_of(pid, "cgroup"),
        }
    }

    /// True if the process that is asked about is still there.
    pub fn is_there(&self) -> bool {
        match self.beside {
            Beside::Us => true,
            Beside::Process(Pid(pid)) => self.places.proc.join(pid.to_string()).exists(),
        }
    }
}

/// The way that is taken: threads' times, unless another one was much nearer to probes.
fn best(share: &Share, record: Option<&Record>) -> Option<(Way, f64)> {
    let first = share.said.first().copied()?;
    let Some(record) = record.filter(|record| record.probes >= PROBES_MIN) else { return Some(first) };
    let off = |way: Way| record.errors.get(&way).map_or(f64::INFINITY, |(off, _)| *off);
    let others = share.said.iter().copied().filter(|(way, _)| off(*way) < NEARER * off(first.0));
    Some(others.min_by(|a, b| off(a.0).total_cmp(&off(b.0))).unwrap_or(first))
}

fn pressure(before: &Result<Pressure, NoFigure>, after: &Result<Pressure, NoFigure>, seconds: f64) -> Figure {
    match (before, after) {
        (Ok(before), Ok(after)) => match after.some_us.checked_sub(before.some_us) {
            Some(us) => Figure::of((us as f64 / 1e6 / seconds).min(1.0), "pressure, some"),
            None => Figure::none(&NoFigure::PressureWentBack),
        },
        (Err(why), _) | (_, Err(why)) => Figure::none(why),
    }
}

fn own_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn share(tasks: f64, load: f64) -> Share {
        Share { nice: 0, said: vec![(Way::Tasks, tasks), (Way::Load, load)], ..Share::default() }
    }

    fn spun(share: f64, turns: u32) -> Spun {
        Spun { share, turns, cpu_s: 0.03, wall_s: 0.03 / share }
    }

    fn sensor() -> Sensor {
        Sensor::new(Places::default(), Beside::Us)
    }

    #[test]
    fn a_probe_corrects_as_far_as_it_can_be_trusted() {
        let value = |turns: u32| sensor().correct(&share(0.5, 0.9), spun(0.7, turns)).value.unwrap_or(-1.0);
        assert!((value(8) - 0.6).abs() < 1e-9, "half way: {}", value(8));
        assert!(value(1) < 0.53 && value(80) > 0.67, "{} {}", value(1), value(80));
    }

    #[test]
    fn a_way_that_is_nearer_again_and_again_is_taken() {
        let mut sensor = sensor();
        for probes in 1..=8 {
            let figure = sensor.correct(&share(0.3, 0.88), spun(0.9, 20));
            let expected = if probes < PROBES_MIN { "tasks" } else { "load" };
            assert!(figure.how.starts_with(expected), "{probes}: {}", figure.how);
            assert!(probes == 1 || (figure.value.unwrap_or(0.0) - 0.9).abs() < 0.1, "{figure:?}");
        }
    }

    #[test]
    fn work_of_processes_that_are_not_seen_is_told() {
        let figure = sensor().figure(&Share { unseen: 0.8, ..share(0.5, 0.1) });
        assert!(figure.how.contains("80% of the work is of processes that can't be seen"), "{figure:?}");
        assert_eq!(sensor().figure(&share(0.5, 0.1)).how, "tasks");
    }

    #[test]
    fn no_way_is_a_reason() {
        let silent = vec![(Way::Tasks, NoFigure::NoTick), (Way::Load, NoFigure::NoLoad)];
        let figure = sensor().figure(&Share { silent, ..Share::default() });
        let why = "tasks: no tick of the clock passed between two looks; load: /proc/loadavg has no load";
        assert_eq!((figure.value, figure.why_not.as_deref()), (None, Some(why)));
    }

    #[test]
    fn a_machine_without_files_has_reasons_and_no_figures() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sensor = Sensor::new(Places::below(folder.path()), Beside::Us);
        assert!(sensor.read(&[0]).is_none(), "nothing was before");
        let reading = sensor.read(&[0, 19]).expect("a look was before");
        let mut all = reading.cpu.iter().chain(&reading.pressures);
        let others = [&reading.memory_free_bytes, &reading.read_bytes_per_s, &reading.disk_busy];
        assert!(all.all(|figure| figure.value.is_none() && figure.why_not.is_some()), "{reading:?}");
        assert!(others.iter().all(|figure| figure.value.is_none() && figure.why_not.is_some()), "{reading:?}");
    }

    #[test]
    fn recorded_texts_of_two_moments_make_a_reading() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = Places::below(folder.path());
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let moment = |ticks: u64, ran_ns: u64, waited_ns: u64| {
            let cpu = |number: u32, user: u64| format!("cpu{number} {user} 0 0 {} 0 0 0 0 0 0\n", ticks - user);
            write("proc/stat", &format!("{}{}procs_running 2\n", cpu(0, ticks), cpu(1, 0)));
            write("proc/loadavg", "1.00 1.00 1.00 2/100 7\n");
            write("proc/pressure/cpu", &format!("some avg10=0.00 total={}\n", ticks * 100));
            write("proc/10/schedstat", &format!("{ran_ns} {waited_ns} 1\n"));
        };
        write("proc/meminfo", "MemAvailable: 8 kB\n");
        write(
            "proc/10/stat",
            "10 (a) R 1 7 7 0 -1 4194560 1 0 0 0 1 0 0 0 20 0 1 0 5 6 7 8 1 1 1 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0",
        );
        for process in ["10", "self"] {
            write(&format!("proc/{process}/cgroup"), "0::/\n");
            write(&format!("proc/{process}/status"), "Cpus_allowed_list:\t0\n");
        }
        moment(1000, 5_000_000, 1);
        let mut sensor = Sensor::new(places, Beside::Us);
        sensor.begin();
        // However long the test took between the looks: the thread ran all of it.
        moment(1100, u64::MAX / 2, 1);
        let reading = sensor.read(&[0, 19]).expect("a look was before");
        let values: Vec<f64> = reading.cpu.iter().filter_map(|figure| figure.value).collect();
        assert!((values[0] - 0.5).abs() < 0.01, "{reading:?}");
        assert!((values[1] - 15.0 / 1039.0).abs() < 0.002, "{reading:?}");
        assert_eq!(reading.memory_free_bytes.value, Some(8192.0));
        assert!(reading.pressures[0].value.is_some() && reading.pressures[1].value.is_none());
        let said: Vec<(Way, f64)> = reading.shares[0].said.clone();
        assert_eq!(said.iter().map(|(way, _)| *way).collect::<Vec<_>>(), Way::ALL);
        assert!((said[1].1 - 0.5).abs() < 0.01 && (said[2].1 - 0.5).abs() < 0.01, "{said:?}");
    }
}
