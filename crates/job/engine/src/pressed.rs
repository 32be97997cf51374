//! A job's answer to pressure: windows of it beside probes that press on a resource at known levels, in turns with windows
//! without them; and the level at which the job presses itself, by how a probe gets on beside it.
//!
//! Probes are processes of the job's user that end when we do. The job is slowed for as long as this takes, and no longer.
//!
//! Next: `trimtab-sensors`' `pressure` for what a probe does, `trimtab-corun`'s `profile` for what the answer is for.

use crate::Engine;
use crate::event::{Event, Listener, Stage};
use crate::found::Found;
use crate::press_error::PressError;
use crate::pressure_probe::{Probe, StartProbe};
use crate::window::{Window, usual_options};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use trimtab_corun::{Between, Curve, Felt, Place, Point, Profile};
use trimtab_measure::Length;
use trimtab_sensors::{NoPressure, Pressed, PressureOrder, last_cache_bytes, pressure_bytes};
use trimtab_track::Job;
use trimtab_types::report::{NodeShare, Report};

/// The levels at which a probe presses, and the shares of each processor that one wants which only computes.
pub const PRESSURE_LEVELS: [f64; 2] = [0.5, 1.0];
/// Each is measured so often, in turns.
const ROUNDS: usize = 2;
/// A probe is at work so long before anything counts: what was in caches is gone.
const SETTLE: Duration = Duration::from_millis(200);
/// A probe's own pace is looked at for so long.
const GAUGE: Duration = Duration::from_millis(600);
/// Paces of a probe of the same work that differ by this factor were disturbed.
const DISTURBED: f64 = 1.15;
/// A window under pressure may last so many times as long as was asked for.
const LONGER: f64 = 8.0;
/// Others that take so much of a processor press by themselves.
const BUSY_MAX: f64 = 0.1;
/// A window that counts another loop than the first is measured anew, until so many in a row have.
const OTHER_LOOP_MAX: usize = 3;
/// How long nobody looks whether the user has ended it.
const LOOK: Duration = Duration::from_millis(50);

/// A probe's pace beside another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    /// Memory of each probe, bytes.
    pub bytes: u64,
    /// Pieces of work in a second of processor time, beside one that only computes.
    pub alone_per_s: Between,
    /// How many times as long a piece takes, by the level of the other.
    pub slows: Curve,
}

/// How this host's probes get on beside each other: the scale by which a job's pressure is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostScale {
    /// The last cache.
    pub cache: Option<Gauge>,
    /// Bandwidth to memory.
    pub memory: Option<Gauge>,
    /// Why one of them is missing.
    pub missing: Vec<String>,
}

/// How a job is to be pressed on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pressing {
    /// A window has so many seconds of iterations, without pressure.
    pub each_s: f64,
    /// All takes so long at most, seconds.
    pub within_s: f64,
    /// Take the user's word about seccomp filters.
    pub seccomp_ok: bool,
}

impl Pressing {
    /// Windows that are planned.
    pub fn windows(&self) -> usize {
        // Without pressure, two shares of processors, and each level of two resources.
        ROUNDS * (1 + PRESSURE_LEVELS.len() * 3)
    }
}

/// A job's answer to pressure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The answer.
    pub profile: Profile,
    /// Windows that it was made of.
    pub windows: usize,
    /// Seconds from the first to the last.
    pub took_s: f64,
    /// Seconds by which the job was set back.
    pub cost_s: f64,
    /// Resources that were not probed or can't be told apart here, in sentences.
    pub because: Vec<String>,
}

/// Looks at how probes get on beside each other on this host, for some seconds.
///
/// # Errors
/// Probes can't be run, or others disturb them.
pub fn host_scale(start: &StartProbe<'_>, listener: &dyn Listener) -> Result<HostScale, PressError> {
    let all = online();
    let mut scale = HostScale { cache: None, memory: None, missing: Vec::new() };
    let [first, others @ ..] = all.as_slice() else { return Ok(scale) };
    if others.is_empty() {
        scale.missing.push("this host has one processor: no probe can press beside another one".to_owned());
        return Ok(scale);
    }
    for pressed in [Pressed::Cache, Pressed::Memory] {
        let found = match bytes_of(pressed, *first, all.len()) {
            Ok(bytes) => telling(gauge(start, listener, pressed, bytes, *first, others)?),
            Err(why) => Err(why.into()),
        };
        let found = found.map_err(|why| scale.missing.push(format!("{}: {why}", pressed.word()))).ok();
        match pressed {
            Pressed::Cache => scale.cache = found,
            _ => scale.memory = found,
        }
    }
    Ok(scale)
}

/// Why a resource has no gauge.
#[derive(Debug, thiserror::Error)]
enum NoGauge {
    #[error(transparent)]
    Bytes(#[from] NoPressure),
    #[error(
        "probes on all other processors slow one by {percent:.1}%, no more than its own pace varies: nothing tells how much a job presses"
    )]
    TellsNothing { percent: f64 },
}

/// The gauge, if probes that press slow each other by more than their own paces vary: else it tells no level.
fn telling(gauge: Gauge) -> Result<Gauge, NoGauge> {
    let whole = gauge.slows.at(1.0);
    match gauge.slows.level_of(whole.value).is_some() && whole.ends.is_some_and(|(lower, _)| lower > 1.0) {
        true => Ok(gauge),
        false => Err(NoGauge::TellsNothing { percent: 100.0 * (whole.value - 1.0) }),
    }
}

fn gauge(
    start: &StartProbe<'_>,
    listener: &dyn Listener,
    pressed: Pressed,
    bytes: u64,
    first: u32,
    others: &[u32],
) -> Result<Gauge, PressError> {
    let order = |pressed: Pressed, level: f64, processors: &[u32]| PressureOrder {
        pressed,
        level,
        wanted: 1.0,
        processors: processors.to_vec(),
        seconds: 60.0,
    };
    let mut own = Probe::start(start, &order(pressed, 1.0, &[first]), bytes, None)?;
    let levels: Vec<f64> = [0.0].into_iter().chain(PRESSURE_LEVELS).collect();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); levels.len()];
    for round in 0..ROUNDS {
        let mut places: Vec<usize> = (0..levels.len()).collect();
        if round % 2 == 1 {
            places.reverse();
        }
        for place in places {
            listener.hear(&Event::Stage(Stage::Pressing { what: pressed.word().to_owned(), level: levels[place] }));
            let kind = if levels[place] > 0.0 { pressed } else { Pressed::Processor };
            let _other = Probe::start(start, &order(kind, levels[place], others), bytes, None)?;
            rates[place].push(own.rate(listener)?);
        }
    }
    let alone = spread(&rates[0]);
    let (least, most) = alone.ends.unwrap_or((alone.value, alone.value));
    if most / least > DISTURBED {
        return Err(PressError::Disturbed { percent: 100.0 * (most / least - 1.0) });
    }
    let point = |place: usize| Point { level: levels[place], slowdown: alone.over(spread(&rates[place])) };
    Ok(Gauge { bytes, alone_per_s: alone, slows: Curve::new((1..levels.len()).map(point).collect()) })
}

/// The middle of some values, and the least and the largest as its ends.
fn spread(values: &[f64]) -> Between {
    let (least, most) =
        values.iter().fold((f64::INFINITY, 0.0_f64), |ends, value| (ends.0.min(*value), ends.1.max(*value)));
    let value = values.iter().map(|value| value.ln()).sum::<f64>() / values.len().max(1) as f64;
    Between { value: value.exp().clamp(least, most), ends: Some((least, most)) }
}

/// Processors that are there.
fn online() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    trimtab_sensors::cgroup::parse_cpus(text.trim()).into_iter().collect()
}

fn bytes_of(pressed: Pressed, processor: u32, threads: usize) -> Result<u64, NoPressure> {
    let free = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| trimtab_sensors::parse_meminfo(&text));
    pressure_bytes(pressed, last_cache_bytes(Path::new("/"), processor), free, threads as u64)
}

/// A window is measured beside this.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Alone,
    /// Probes that compute, and want so much of each processor.
    Sharing(f64),
    /// Probes that press at a level.
    Pressing(Pressed, f64),
}

/// A window beside a probe counted this.
enum Paced {
    /// The first window's loop: the time of an iteration.
    Pace(Between),
    /// Another one, in words.
    OtherLoop(String),
}

impl Engine<'_> {
    /// A job's answer to pressure on this host, whose scale is known. `first` is a window of it without pressure.
    ///
    /// # Errors
    /// [`PressError`]; then all probes have ended.
    pub fn pressed(
        &self,
        found: &Found,
        first: &Report,
        scale: &HostScale,
        pressing: Pressing,
        start: &StartProbe<'_>,
    ) -> Result<Answer, PressError> {
        let Found::Here(job) = found else { return Err(PressError::Elsewhere) };
        let all = online();
        let own: BTreeSet<u32> =
            job.ranks.iter().flat_map(|rank| trimtab_sensors::cgroup::parse_cpus(&rank.cpus_allowed)).collect();
        let own: Vec<u32> = own.into_iter().filter(|one| all.contains(one)).collect();
        let free: Vec<u32> = all.iter().copied().filter(|one| !own.contains(one)).collect();
        let place = if free.is_empty() { Place::Upon } else { Place::Beside };
        let probed = if free.is_empty() { own.clone() } else { free };
        let run = PressRun {
            engine: self,
            found,
            job,
            first,
            scale,
            pressing,
            start,
            place,
            own,
            probed,
            begun: Instant::now(),
        };
        run.answer()
    }
}

/// One job under pressure.
struct PressRun<'a> {
    engine: &'a Engine<'a>,
    found: &'a Found,
    job: &'a Job,
    first: &'a Report,
    scale: &'a HostScale,
    pressing: Pressing,
    start: &'a StartProbe<'a>,
    place: Place,
    own: Vec<u32>,
    probed: Vec<u32>,
    begun: Instant,
}

impl PressRun<'_> {
    fn answer(&self) -> Result<Answer, PressError> {
        let steps = self.steps();
        let mut found: Vec<Vec<Between>> = vec![Vec::new(); steps.len()];
        let (mut levels, mut windows) = ([Vec::new(), Vec::new()], 0);
        let mut under_s: Vec<(f64, f64)> = Vec::new();
        for round in 0..ROUNDS {
            let round_begun = Instant::now();
            let mut places: Vec<usize> = (0..steps.len()).collect();
            if round % 2 == 1 {
                places.reverse();
            }
            for at in places {
                let begun = Instant::now();
                let pace = self.paced(steps[at], round)?;
                if steps[at] != Step::Alone {
                    under_s.push((begun.elapsed().as_secs_f64(), pace.value));
                }
                found[at].push(pace);
                windows += 1;
                self.check_time(round)?;
            }
            for (pressed, levels) in [Pressed::Cache, Pressed::Memory].into_iter().zip(&mut levels) {
                levels.extend(self.level(pressed)?);
            }
            let next_ends_s = self.begun.elapsed().as_secs_f64() + round_begun.elapsed().as_secs_f64();
            if next_ends_s > self.pressing.within_s {
                break;
            }
        }
        let paces: Vec<Between> = found.iter().map(|all| middle(all)).collect();
        let alone = paces[0].value;
        let cost_s = under_s.iter().map(|(seconds, pace)| seconds * (1.0 - alone / pace).max(0.0)).sum();
        Ok(Answer {
            profile: self.profile(&steps, &paces, &levels),
            windows,
            took_s: self.begun.elapsed().as_secs_f64(),
            cost_s,
            because: self.because(),
        })
    }

    fn check_time(&self, round: usize) -> Result<(), PressError> {
        if self.engine.listener.is_interrupted() {
            return Err(PressError::Interrupted);
        }
        match round == 0 && self.begun.elapsed().as_secs_f64() > self.pressing.within_s {
            true => Err(PressError::TooLong { within_s: self.pressing.within_s }),
            false => Ok(()),
        }
    }

    fn gauge(&self, pressed: Pressed) -> Option<&Gauge> {
        match pressed {
            Pressed::Processor => None,
            Pressed::Cache => self.scale.cache.as_ref(),
            Pressed::Memory => self.scale.memory.as_ref(),
        }
    }

    fn steps(&self) -> Vec<Step> {
        let shares = match self.place {
            Place::Upon => PRESSURE_LEVELS.to_vec(),
            Place::Beside => vec![1.0],
        };
        let mut steps: Vec<Step> = [Step::Alone].into_iter().chain(shares.into_iter().map(Step::Sharing)).collect();
        for pressed in [Pressed::Cache, Pressed::Memory] {
            if self.gauge(pressed).is_some() {
                steps.extend(PRESSURE_LEVELS.map(|level| Step::Pressing(pressed, level)));
            }
        }
        steps
    }

    fn probe(&self, step: Step, processors: &[u32]) -> Result<Option<Probe>, PressError> {
        let (pressed, level, wanted) = match step {
            Step::Alone => return Ok(None),
            Step::Sharing(wanted) => (Pressed::Processor, 1.0, wanted),
            Step::Pressing(pressed, level) => (pressed, level, 1.0),
        };
        let seconds = LONGER * self.pressing.each_s + 30.0;
        let order = PressureOrder { pressed, level, wanted, processors: processors.to_vec(), seconds };
        let bytes = self.gauge(pressed).map_or(0, |gauge| gauge.bytes);
        Probe::start(self.start, &order, bytes, self.job.ranks.first().map(|rank| rank.pid)).map(Some)
    }

    /// The time of an iteration beside a probe. Where a job has several loops, a short window may count another than the
    /// first one did: it is measured once more.
    fn paced(&self, step: Step, round: usize) -> Result<Between, PressError> {
        let mut others: Vec<String> = Vec::new();
        while others.len() < OTHER_LOOP_MAX {
            match self.window(step)? {
                Paced::Pace(pace) => return Ok(pace),
                Paced::OtherLoop(other) => others.push(other),
            }
            self.check_time(round)?;
        }
        let first = counted(self.first);
        let why = format!("{OTHER_LOOP_MAX} windows in a row counted {}; the first counted {first}", others.join(", "));
        Err(PressError::NoPace { why })
    }

    /// As [`PressRun::pace`], beside a probe.
    fn window(&self, step: Step) -> Result<Paced, PressError> {
        let (what, level) = match step {
            Step::Alone => ("nothing", 0.0),
            Step::Sharing(wanted) => (Pressed::Processor.word(), wanted),
            Step::Pressing(pressed, level) => (pressed.word(), level),
        };
        self.engine.listener.hear(&Event::Stage(Stage::Pressing { what: what.to_owned(), level }));
        let _probe = self.probe(step, &self.probed)?;
        let options = trimtab_measure::Options {
            length: Length::AtLeast(self.pressing.each_s),
            max_seconds: LONGER * self.pressing.each_s,
            seccomp_ok: self.pressing.seccomp_ok,
            ..usual_options("pressure")
        };
        let measured = self.engine.window(self.found, &Window::new(options)).map_err(PressError::Window)?;
        if self.engine.listener.is_interrupted() {
            return Err(PressError::Interrupted);
        }
        match others_at_work(&measured.report.nodes).filter(|_| step == Step::Alone) {
            Some((who, busy)) => Err(PressError::Beside { who, busy }),
            None => self.pace(&measured.report),
        }
    }

    /// The time of an iteration of the first window's loop.
    fn pace(&self, report: &Report) -> Result<Paced, PressError> {
        let no_pace = |why: &str| Err(PressError::NoPace { why: why.to_owned() });
        if !report.window.valid || report.window.iterations.is_none() {
            return no_pace("a window under pressure is not valid, or counts no iterations");
        }
        let loop_of = |report: &Report| (report.window.main_loop.clone(), report.window.marker.clone());
        if loop_of(report) != loop_of(self.first) {
            return Ok(Paced::OtherLoop(counted(report)));
        }
        match report.time_per_iteration_s {
            Some(each) if each.mean > 0.0 => Ok(Paced::Pace(Between::of_mean(each.mean, each.half_width_95))),
            _ => no_pace("a window says no time of an iteration"),
        }
    }

    /// The level at which the job presses, by how a probe on one processor gets on beside it.
    fn level(&self, pressed: Pressed) -> Result<Option<Between>, PressError> {
        let (Some(gauge), Some(processor)) = (self.gauge(pressed), self.probed.first()) else { return Ok(None) };
        let Some(mut probe) = self.probe(Step::Pressing(pressed, 1.0), &[*processor])? else { return Ok(None) };
        let rate = probe.rate(self.engine.listener)?;
        let slowed = Between {
            value: gauge.alone_per_s.value / rate,
            ends: gauge.alone_per_s.ends.map(|(low, high)| (low / rate, high / rate)),
        };
        let level = |slowed: f64| gauge.slows.level_of(slowed);
        let (lower, upper) = slowed.ends.unwrap_or((slowed.value, slowed.value));
        Ok(level(slowed.value).map(|value| Between { value, ends: level(lower).zip(level(upper)) }))
    }

    fn profile(&self, steps: &[Step], paces: &[Between], levels: &[Vec<Between>; 2]) -> Profile {
        let of = |wanted: Step| steps.iter().position(|step| *step == wanted).map(|at| paces[at]);
        let computing = of(Step::Sharing(1.0)).unwrap_or(paces[0]);
        let share = |level: f64| Some(Point { level, slowdown: of(Step::Sharing(level))?.over(paces[0]) });
        let felt = |pressed: Pressed, levels: &[Between]| {
            let point =
                |level: f64| Some(Point { level, slowdown: of(Step::Pressing(pressed, level))?.over(computing) });
            let points: Vec<Point> = PRESSURE_LEVELS.into_iter().filter_map(point).collect();
            (!points.is_empty() && !levels.is_empty())
                .then(|| Felt { slows: Curve::new(points), makes: level_of_all(levels) })
        };
        Profile {
            place: self.place,
            processors: self.own.clone(),
            sharing: (self.place == Place::Upon)
                .then(|| Curve::new(PRESSURE_LEVELS.into_iter().filter_map(share).collect())),
            cache: felt(Pressed::Cache, &levels[0]),
            memory: felt(Pressed::Memory, &levels[1]),
        }
    }

    fn because(&self) -> Vec<String> {
        let mut said = self.scale.missing.clone();
        if self.place == Place::Upon {
            said.push(
                "the job may use all processors: probes took turns with it, and cache and memory are told from the share of \
                 processors only by a probe that computes"
                    .to_owned(),
            );
        }
        said.push(
            "no counters tell cache and memory apart: the probe of memory empties the cache too, so the larger of both \
             slowdowns counts"
                .to_owned(),
        );
        said.push("network and I/O were not probed".to_owned());
        said
    }
}

/// The loop that counts the iterations of a window, for a reader.
fn counted(report: &Report) -> String {
    let by_loop = report.window.main_loop.as_ref().map(|one| format!("loop {} of {}", one.number, one.function));
    by_loop.or_else(|| report.window.marker.clone()).unwrap_or_else(|| "no loop".to_owned())
}

/// The busiest of those who share the job's machine, and how many processors all of them took; `None`: they hardly took any.
fn others_at_work(nodes: &[NodeShare]) -> Option<(String, f64)> {
    let all = nodes.iter().flat_map(|node| &node.neighbours);
    let mut busy: Vec<(f64, &str)> = all.filter_map(|one| Some((one.busy_processors?, one.program.as_str()))).collect();
    busy.sort_by(|one, other| other.0.total_cmp(&one.0));
    let taken: f64 = busy.iter().map(|(processors, _)| processors).sum();
    let (_, who) = busy.first().filter(|_| taken > BUSY_MAX)?;
    Some(((*who).to_owned(), taken))
}

/// One figure of some, each with its own interval: the wider of what the intervals and what the spread say.
fn middle(all: &[Between]) -> Between {
    let found = spread(&all.iter().map(|one| one.value).collect::<Vec<f64>>());
    let part = |one: &Between| one.ends.map(|(lower, upper)| 0.5 * (upper / lower).ln());
    let own = all.iter().map(part).collect::<Option<Vec<f64>>>();
    let count = all.len().max(1) as f64;
    let ends = own.zip(found.ends).map(|(own, (least, most))| {
        let half = own.iter().map(|half| half * half).sum::<f64>().sqrt() / count;
        let half = half.max(0.5 * (most / least).ln());
        (found.value * (-half).exp(), found.value * half.exp())
    });
    Between { value: found.value, ends }
}

/// A level of some, which may be 0.
fn level_of_all(all: &[Between]) -> Between {
    let value = all.iter().map(|one| one.value).sum::<f64>() / all.len().max(1) as f64;
    let ends = |one: &Between| one.ends.unwrap_or((one.value, one.value));
    let least = all.iter().map(|one| ends(one).0).fold(value, f64::min);
    let most = all.iter().map(|one| ends(one).1).fold(value, f64::max);
    Between { value, ends: Some((least, most)) }
}

impl Probe {
    /// Pieces of its work in a second of its processor time.
    fn rate(&mut self, listener: &dyn Listener) -> Result<f64, PressError> {
        sleep(SETTLE);
        let before = self.mark()?;
        let begun = Instant::now();
        // Beside a job it may get little of a processor: it is given time for some pieces.
        while begun.elapsed() < GAUGE {
            if listener.is_interrupted() {
                return Err(PressError::Interrupted);
            }
            sleep(LOOK);
        }
        let rate = self.mark()?.rate_since(before);
        rate.ok_or_else(|| PressError::NoPace { why: "a probe got no processor".to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_types::report::Neighbour;

    #[test]
    fn figures_of_rounds_have_the_wider_interval() {
        let of = |mean: f64| Between::of_mean(mean, Some(0.01 * mean));
        let same = middle(&[of(1.0), of(1.0)]);
        let (lower, upper) = same.ends.unwrap();
        assert!((same.value - 1.0).abs() < 1e-12 && upper - lower < 0.02 && upper > lower, "{same:?}");
        let apart = middle(&[of(1.0), of(1.21)]);
        assert!(
            (apart.value - 1.1).abs() < 1e-9 && apart.ends.is_some_and(|(lower, upper)| lower < 1.01 && upper > 1.2)
        );
        assert_eq!(middle(&[of(1.0), Between { value: 1.0, ends: None }]).ends, None);
    }

    #[test]
    fn others_that_hardly_work_do_not_press() {
        let other = |program: &str, busy_processors| Neighbour {
            program: program.to_owned(),
            busy_processors,
            ..Neighbour::default()
        };
        let on = |neighbours| [NodeShare { neighbours, ..NodeShare::default() }];
        assert_eq!(others_at_work(&on(vec![])), None);
        assert_eq!(others_at_work(&on(vec![other("a", Some(0.04)), other("b", None)])), None);
        let found = others_at_work(&on(vec![other("a", Some(0.25)), other("b", Some(0.5))]));
        assert_eq!(found, Some(("b".to_owned(), 0.75)));
    }

    #[test]
    fn a_level_may_be_none() {
        let zero = Between { value: 0.0, ends: Some((0.0, 0.2)) };
        let half = Between { value: 0.5, ends: None };
        assert_eq!(level_of_all(&[zero, half]), Between { value: 0.25, ends: Some((0.0, 0.5)) });
    }
}
