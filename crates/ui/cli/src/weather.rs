//! `weather`: what a new process would get on this host now and soon.
//!
//! Each second's values go to the store, so that what comes soon is forecast from what was.
//!
//! Next: `weather_lines` and `weather_page` for what is printed, `weather_answer` for the other side of a pair;
//! `trimtab-sensors` for the sensors, docs/weather.md for the output.

use crate::arguments::WeatherOptions;
use crate::progress::Terminal;
use crate::weather_lines::{Cost, Line, Way, Weather, host_lines, pair_lines};
use crate::weather_page::show;
use crate::{output, weather_answer, weather_site};
use anyhow::{Context, anyhow, bail, ensure};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trimtab_engine::own;
use trimtab_engine::sensors::net::{Asked, Patience, Secret, ask, token};
use trimtab_engine::sensors::{Beside, Budget, Figure, Places, Reading, Sensor, Share, Spun, spin};
use trimtab_engine::weather::{Soon, soon};
use trimtab_store::{History, SeriesName, SeriesValue, Store};
use trimtab_types::Pid;

/// Values of a series that forecasts rest on, the newest.
const VALUES_MAX: u32 = 2048;
/// A probe corrects shares until the next one, so many seconds later.
const PROBE_EVERY_S: u32 = 60;
/// How long nobody looks whether the user has ended it.
const LOOK: Duration = Duration::from_millis(50);
/// Values of this are kept to know how long probes of a pair take.
const TOOK: &str = "probe_took_s";

/// `trimtab weather`.
pub fn run(options: &WeatherOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let terminal = Terminal::new()?;
    if let Some(host) = &options.host {
        return weather_site::run(host, options, &terminal);
    }
    if let Some(address) = options.answer {
        return weather_answer::run(address, options, &terminal);
    }
    // Nothing is measured for what can't be asked.
    let pair = match options.to.as_deref() {
        Some(to) => Some((to, address_of(to)?, secret(options)?)),
        None => None,
    };
    let mut store = Store::open(store.as_deref())?;
    let mut weather = look(options, &mut store, &terminal)?;
    if let Some((to, address, secret)) = pair {
        add_pair(&mut weather, options, &mut store, (to, address, secret))?;
    }
    terminal.finish();
    show(options, &weather)
}

fn look(options: &WeatherOptions, store: &mut Store, terminal: &Terminal) -> anyhow::Result<Weather> {
    let beside = options.pid.map_or(Beside::Us, |pid| Beside::Process(Pid(pid)));
    let mut sensor = Sensor::new(Places::default(), beside);
    let host = own_host();
    let (mut all, mut probed) = (None, Err(anyhow!("not yet")));
    sensor.begin();
    for second in 1..=options.seconds {
        if !sensor.is_there() {
            bail!("process {} is not there; give one that runs, or leave out --pid", options.pid.unwrap_or_default());
        }
        if options.seconds > 1 {
            terminal.say(format!("looking, second {second} of {}", options.seconds));
        }
        if !wait(Duration::from_secs(1), terminal) {
            break;
        }
        let reading = sensor.read(&[options.nice]).context("nothing was looked at before")?;
        let at_unix_s = own::unix_s();
        let mut figure = reading.cpu[0].clone();
        if second % PROBE_EVERY_S == 1 {
            probed = probe(options, beside);
            if let Ok(spun) = &probed {
                figure = sensor.correct(&reading.shares[0], *spun);
            }
        }
        let lines = lines(&reading, figure);
        if beside == Beside::Us {
            let named = lines.iter().map(|line| (name_of(line.key, options.nice), line.figure.value));
            keep(store, &host, None, at_unix_s, named)?;
        }
        all = Some((reading, lines, at_unix_s));
    }
    let Some((reading, mut lines, made_unix_s)) = all else { bail!("interrupted before anything was found") };
    for line in &mut lines {
        line.soon = match beside {
            Beside::Us => forecast(store, &host, None, &name_of(line.key, options.nice), line.bounds),
            Beside::Process(_) => Err(anyhow!("figures of a process's place are not kept")),
        };
    }
    let (nice, pid) = (options.nice, options.pid);
    let (looked_s, cost, ways) = (reading.seconds, Cost::Look(reading.cost_cpu_s), ways(&reading.shares[0]));
    Ok(Weather { host, peer: None, nice, pid, made_unix_s, looked_s, lines, ways, probe: probed, net: None, cost })
}

fn ways(share: &Share) -> Vec<Way> {
    let said = share.said.iter().map(|(way, value)| (way.word().to_owned(), Some(*value), None));
    let silent = share.silent.iter().map(|(way, why)| (way.word().to_owned(), None, Some(why.to_string())));
    said.chain(silent).collect()
}

fn probe(options: &WeatherOptions, beside: Beside) -> anyhow::Result<Spun> {
    ensure!(!options.no_probe, "--no-probe");
    ensure!(beside == Beside::Us, "nothing of ours can compute in the place of another process");
    spin(options.nice, Budget::default()).map_err(|error| anyhow!("at nice {}: {error}", options.nice))
}

/// False: the user ends it.
fn wait(time: Duration, terminal: &Terminal) -> bool {
    let until = Instant::now() + time;
    while !terminal.is_interrupted() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(LOOK.min(left));
    }
    false
}

fn lines(reading: &Reading, share: Figure) -> Vec<Line> {
    let [cpu, io, memory] = &reading.pressures;
    let of = |key: &str| match key {
        "cpu_share" => &share,
        "cpu_pressure" => cpu,
        "memory_free_bytes" => &reading.memory_free_bytes,
        "memory_pressure" => memory,
        "read_bytes_per_s" => &reading.read_bytes_per_s,
        "written_bytes_per_s" => &reading.written_bytes_per_s,
        "disk_busy" => &reading.disk_busy,
        _ => io,
    };
    host_lines(|key| of(key).clone())
}

fn add_pair(
    weather: &mut Weather,
    options: &WeatherOptions,
    store: &mut Store,
    (to, address, secret): (&str, SocketAddr, Secret),
) -> anyhow::Result<()> {
    let took = store.values(&series(&weather.host, Some(to), TOOK), VALUES_MAX)?;
    let patience = Patience::after(took.iter().map(|one| one.value));
    let asked = Asked { secret, token: token::OF_MACHINE.to_owned(), bytes_max: options.bytes, patience };
    let found = ask(address, &asked)?;
    let at_unix_s = own::unix_s();
    let pair = pair_lines(&found);
    let named = pair.iter().map(|line| (line.key.to_owned(), line.figure.value));
    let took = (TOOK.to_owned(), Some(found.took_s));
    keep(store, &weather.host, Some(to), at_unix_s, named.chain([took]))?;
    for mut line in pair {
        line.soon = forecast(store, &weather.host, Some(to), line.key, line.bounds);
        weather.lines.push(line);
    }
    (weather.peer, weather.net) = (Some(to.to_owned()), Some(found));
    Ok(())
}

fn series(host: &str, peer: Option<&str>, figure: &str) -> SeriesName {
    SeriesName { host: host.to_owned(), peer: peer.map(str::to_owned), figure: figure.to_owned() }
}

/// Shares of processors are of a nice level.
fn name_of(key: &str, nice: i32) -> String {
    if key == "cpu_share" { format!("{key} nice {nice}") } else { key.to_owned() }
}

fn keep(
    store: &mut Store,
    host: &str,
    peer: Option<&str>,
    at_unix_s: f64,
    named: impl Iterator<Item = (String, Option<f64>)>,
) -> anyhow::Result<()> {
    let value = |(figure, value): (String, Option<f64>)| {
        Some((series(host, peer, &figure), SeriesValue { at_unix_s, value: value? }))
    };
    Ok(store.note_values(&named.filter_map(value).collect::<Vec<_>>())?)
}

fn forecast(store: &Store, host: &str, peer: Option<&str>, figure: &str, bounds: (f64, f64)) -> anyhow::Result<Soon> {
    let values = store.values(&series(host, peer, figure), VALUES_MAX)?;
    let (times_s, values): (Vec<f64>, Vec<f64>) = values.iter().map(|one| (one.at_unix_s, one.value)).unzip();
    Ok(soon(&times_s, &values, own::unix_s(), bounds)?)
}

fn address_of(to: &str) -> anyhow::Result<SocketAddr> {
    let unknown = || format!("unknown host: {to}; give HOST:PORT as `trimtab weather --answer` prints it there");
    let mut all = to.to_socket_addrs().with_context(unknown)?;
    all.next().with_context(unknown)
}

fn secret(options: &WeatherOptions) -> anyhow::Result<Secret> {
    let path: &Path = options.secret.as_deref().context(
        "--to needs --secret FILE with what `trimtab weather --answer` prints there, or --host for hosts of a site",
    )?;
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read the secret {}", path.display()))?;
    Secret::parse(&text).with_context(|| format!("{} holds no secret: 32 hexadecimal digits", path.display()))
}

fn own_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
