//! The weather of this host, sensed all the time: looks at the kernel's counters, short probes of the processor, and answers to
//! probes of the network.
//!
//! Looks come so seldom that they cost their share of a processor at most, whatever one costs here. Nobody's processes are touched.
//!
//! Next: `trimtab-sensors` for the sensors; `standing`, which is asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trimtab_engine::own;
use trimtab_engine::sensors::net::{Answerer, Asked, Patience, Secret, ask, token};
use trimtab_engine::sensors::{Beside, Budget, Figure, Places, Reading, Sensor, Share, Spun, spin};
use trimtab_engine::weather::{STEPS_MAX, Soon, soon};
use trimtab_site::weather::{
    AgentWeather, HostFigure, HostProbe, HostSoon, HostWay, HostWeather, PairFound, ProbeOrder, ProbeOutcome,
};
use trimtab_types::{notice, one_line};

/// Time between two looks,
const PERIOD: Duration = Duration::from_secs(10);
/// or more where a look costs more than this share of a processor.
const LOOKS_SHARE_MAX: f64 = 5e-4;
/// Looks between two probes of 30 ms: a twentieth of a percent.
const PROBE_LOOKS: u64 = 6;
/// Values kept of each figure: some hours.
const VALUES_MAX: usize = 2048;
/// Nice levels of which values are kept; who asks for one more is answered from the latest looks.
const LEVELS_MAX: usize = 4;
/// How long nobody looks whether it is over.
const LOOK: Duration = Duration::from_millis(500);

/// The sensors, and what they found.
pub(crate) struct Weather {
    state: Mutex<State>,
    /// The port at which probes of the network are answered, and their secret.
    answers: Option<(u16, Secret)>,
}

struct State {
    sensor: Sensor,
    latest: Option<Latest>,
    levels: BTreeSet<i32>,
    values: BTreeMap<String, VecDeque<(f64, f64)>>,
    period_s: f64,
    began: Instant,
    cost_cpu_s: f64,
}

struct Latest {
    at: Instant,
    at_unix_s: f64,
    reading: Reading,
}

impl Weather {
    /// Begins to look, until it is over.
    pub(crate) fn begin(is_over: &Arc<AtomicBool>) -> Arc<Weather> {
        let answerer = Secret::new().and_then(|secret| {
            let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            Ok((Answerer::bind(anywhere, secret.clone(), token::OF_MACHINE)?, secret))
        });
        let answerer =
            answerer.inspect_err(|error| notice(&format!("no probe of the network is answered: {error}"))).ok();
        let state = State {
            sensor: Sensor::new(Places::default(), Beside::Us),
            latest: None,
            levels: BTreeSet::from([0]),
            values: BTreeMap::new(),
            period_s: PERIOD.as_secs_f64(),
            began: Instant::now(),
            cost_cpu_s: 0.0,
        };
        let answers = answerer.as_ref().map(|(answerer, secret)| (answerer.address().port(), secret.clone()));
        let weather = Arc::new(Weather { state: Mutex::new(state), answers });
        let (own, over) = (weather.clone(), is_over.clone());
        spawn("trimtab-weather", move || own.sense(&over));
        if let Some((answerer, _)) = answerer {
            let over = is_over.clone();
            spawn("trimtab-answers", move || {
                let _ended = answerer.serve(|| over.load(Ordering::Relaxed));
            });
        }
        weather
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sense(&self, is_over: &AtomicBool) {
        self.state().sensor.begin();
        for looks in 1_u64.. {
            let until = Instant::now() + Duration::from_secs_f64(self.state().period_s);
            while Instant::now() < until {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
            }
            self.state().look();
            if looks % PROBE_LOOKS == 1
                && let Ok(spun) = spin(0, Budget::default())
            {
                self.state().correct(spun);
            }
        }
    }

    /// The answer to the controller.
    pub(crate) fn say(&self, host: &str, nice: i32) -> AgentWeather {
        let answers = self.answers.as_ref().map(|(port, secret)| (*port, secret.text()));
        AgentWeather { weather: self.state().say(host, nice), answers }
    }

    /// Makes a probe of the network.
    pub(crate) fn probe(order: &ProbeOrder) -> ProbeOutcome {
        let found = order.address.parse::<SocketAddr>().map_err(|error| error.to_string()).and_then(|address| {
            let secret = Secret::parse(&order.secret).ok_or("the order has no secret")?;
            let patience = Patience::after(order.took_s.iter().copied()).of_at_most(6.0);
            let (token, bytes_max) = (token::OF_MACHINE.to_owned(), order.bytes_max);
            ask(address, &Asked { secret, token, bytes_max, patience }).map_err(|error| one_line(&error))
        });
        match found {
            Ok(found) => ProbeOutcome {
                found: Some(PairFound {
                    latency_s: found.latency_s,
                    latency_least_s: found.latency_least_s,
                    latency_most_s: found.latency_most_s,
                    bandwidth_bytes_per_s: found.bandwidth_bytes_per_s,
                    lasted_s: found.lasted_s,
                    bytes: found.bytes,
                    took_s: found.took_s,
                    timeout_s: found.timeout_s,
                }),
                why_not: None,
            },
            Err(why) => ProbeOutcome { found: None, why_not: Some(why) },
        }
    }
}

impl State {
    fn look(&mut self) {
        let levels: Vec<i32> = self.levels.iter().copied().collect();
        let Some(reading) = self.sensor.read(&levels) else { return };
        self.cost_cpu_s += reading.cost_cpu_s;
        self.period_s = PERIOD.as_secs_f64().max(reading.cost_cpu_s / LOOKS_SHARE_MAX);
        let at_unix_s = own::unix_s();
        let shares = levels.iter().zip(&reading.cpu).map(|(nice, figure)| (share_name(*nice), figure));
        let others = figures(&reading).map(|(key, figure)| (key.to_owned(), figure));
        for (name, figure) in shares.chain(others) {
            let Some(value) = figure.value else { continue };
            let values = self.values.entry(name).or_default();
            // A clock that was set back begins anew.
            if values.back().is_some_and(|(newest_s, _)| *newest_s >= at_unix_s) {
                values.clear();
            }
            values.push_back((at_unix_s, value));
            let too_many = values.len().saturating_sub(VALUES_MAX);
            values.drain(..too_many);
        }
        self.latest = Some(Latest { at: Instant::now(), at_unix_s, reading });
    }

    fn correct(&mut self, spun: Spun) {
        self.cost_cpu_s += spun.cpu_s;
        let latest = self.latest.as_ref();
        if let Some(share) = latest.and_then(|latest| latest.reading.shares.iter().find(|share| share.nice == 0)) {
            self.sensor.correct(&share.clone(), spun);
        }
    }

    fn say(&mut self, host: &str, nice: i32) -> Option<HostWeather> {
        if self.levels.len() < LEVELS_MAX {
            self.levels.insert(nice);
        }
        let latest = self.latest.as_ref()?;
        let (share, figure) = self.sensor.latest_at(nice)?;
        let age_s = latest.at.elapsed().as_secs_f64();
        let age_max_s = STEPS_MAX * self.period_s;
        let of_share = self.host_figure("cpu_share", &share_name(nice), &figure, age_s, age_max_s);
        let others = figures(&latest.reading).map(|(key, figure)| self.host_figure(key, key, figure, age_s, age_max_s));
        Some(HostWeather {
            host: host.to_owned(),
            nice,
            made_unix_s: latest.at_unix_s,
            age_s,
            looked_s: latest.reading.seconds,
            figures: std::iter::once(of_share).chain(others).collect(),
            ways: ways(&share),
            probe: share.probe.map(|spun| HostProbe {
                share: spun.share,
                turns: spun.turns,
                cpu_s: spun.cpu_s,
                lasted_s: spun.wall_s,
            }),
            no_probe: share.probe.is_none().then(|| "agents probe at nice 0, once a minute".to_owned()),
            cost_share: self.cost_cpu_s / self.began.elapsed().as_secs_f64().max(1.0),
        })
    }

    fn host_figure(&self, key: &str, series: &str, figure: &Figure, age_s: f64, age_max_s: f64) -> HostFigure {
        let figure = figure.aged(age_s, age_max_s);
        let is_share = key == "cpu_share" || key.ends_with("pressure") || key == "disk_busy";
        let bounds = (0.0, if is_share { 1.0 } else { f64::INFINITY });
        let soon = self.values.get(series).map_or_else(
            || Err("no value yet".to_owned()),
            |values| {
                let (times_s, values): (Vec<f64>, Vec<f64>) = values.iter().copied().unzip();
                soon(&times_s, &values, own::unix_s(), bounds).map_err(|error| error.to_string())
            },
        );
        HostFigure {
            key: key.to_owned(),
            value: figure.value,
            how: figure.how,
            age_s: figure.age_s,
            why_not: figure.why_not,
            no_soon: soon.as_ref().err().cloned(),
            soon: soon.ok().map(host_soon),
        }
    }
}

fn host_soon(soon: Soon) -> HostSoon {
    HostSoon {
        value: soon.value,
        lower: soon.lower,
        upper: soon.upper,
        share_inside: soon.share_inside,
        method: soon.method,
        values: soon.values as u32,
        step_s: soon.step_s,
        age_s: soon.age_s,
    }
}

fn ways(share: &Share) -> Vec<HostWay> {
    let said = share.said.iter().map(|(way, value)| (way, Some(*value), None));
    let silent = share.silent.iter().map(|(way, why)| (way, None, Some(why.to_string())));
    said.chain(silent).map(|(way, share, why_not)| HostWay { way: way.word().to_owned(), share, why_not }).collect()
}

fn share_name(nice: i32) -> String {
    format!("cpu_share nice {nice}")
}

/// All but the shares of processors, by their names.
fn figures(reading: &Reading) -> impl Iterator<Item = (&'static str, &Figure)> {
    let [cpu, io, memory] = &reading.pressures;
    [
        ("cpu_pressure", cpu),
        ("memory_free_bytes", &reading.memory_free_bytes),
        ("memory_pressure", memory),
        ("read_bytes_per_s", &reading.read_bytes_per_s),
        ("written_bytes_per_s", &reading.written_bytes_per_s),
        ("disk_busy", &reading.disk_busy),
        ("io_pressure", io),
    ]
    .into_iter()
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
        notice(&format!("{name}: no thread can be started: {error}"));
    }
}
