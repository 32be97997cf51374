//! The parts of what `weather` shows: its figures, line by line.
//!
//! Next: `weather` and `weather_site`, which find them, `weather_page`, which prints them.

use anyhow::anyhow;
use trimtab_engine::sensors::net::Found;
use trimtab_engine::sensors::{Figure, Spun};
use trimtab_engine::weather::Soon;

/// The share of a processor by one way, or why it says nothing.
pub type Way = (String, Option<f64>, Option<String>);

/// One figure, with what comes soon.
pub struct Line {
    /// Its name in the JSON.
    pub key: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its name in words.
    pub label: &'static str,
    /// The least and the most that it can be.
    pub bounds: (f64, f64),
    /// Now.
    pub figure: Figure,
    /// Soon, or why not.
    pub soon: anyhow::Result<Soon>,
}

/// All that is shown.
pub struct Weather {
    /// Of which host.
    pub host: String,
    /// The other one of a pair.
    pub peer: Option<String>,
    /// The nice level.
    pub nice: i32,
    /// The process in whose place.
    pub pid: Option<i32>,
    /// When, seconds since 1970.
    pub made_unix_s: f64,
    /// Time between the two looks, seconds.
    pub looked_s: f64,
    /// The figures.
    pub lines: Vec<Line>,
    /// The share of a processor by each way.
    pub ways: Vec<Way>,
    /// The probe, or why there is none.
    pub probe: anyhow::Result<Spun>,
    /// The probe of the network.
    pub net: Option<Found>,
    /// The cost.
    pub cost: Cost,
}

/// The cost of sensing.
pub enum Cost {
    /// Processor time of this command's last look, seconds.
    Look(f64),
    /// An agent's share of a processor since it began.
    Share(f64),
}

/// Bounds of shares, and of all else.
const SHARE: (f64, f64) = (0.0, 1.0);
const AMOUNT: (f64, f64) = (0.0, f64::INFINITY);

/// The lines of a pair.
pub fn pair_lines(found: &Found) -> [Line; 2] {
    let how = |what: &str| format!("{what}, {} bytes in all, each wait at most {:.1} s", found.bytes, found.timeout_s);
    let latency = Figure::of(found.latency_s, how("half of the median of 20 round trips of a byte"));
    let bandwidth = Figure::of(
        found.bandwidth_bytes_per_s,
        how(&format!("the second half of a transfer, {:.0} ms", 1e3 * found.lasted_s)),
    );
    [
        line("latency_s", "s", "latency, one way", AMOUNT, latency),
        line("bandwidth_bytes_per_s", "bytes/s", "bandwidth", AMOUNT, bandwidth),
    ]
}

fn line(key: &'static str, unit: &'static str, label: &'static str, bounds: (f64, f64), figure: Figure) -> Line {
    Line { key, unit, label, bounds, figure, soon: Err(anyhow!("not known")) }
}

/// The lines of a host, each with what `of` finds by its key.
pub fn host_lines(mut of: impl FnMut(&str) -> Figure) -> Vec<Line> {
    [
        ("cpu_share", "share", "share of a processor", SHARE),
        ("cpu_pressure", "share", "  time somebody waited for one", SHARE),
        ("memory_free_bytes", "bytes", "memory free", AMOUNT),
        ("memory_pressure", "share", "  time somebody waited for it", SHARE),
        ("read_bytes_per_s", "bytes/s", "disks: read", AMOUNT),
        ("written_bytes_per_s", "bytes/s", "disks: written", AMOUNT),
        ("disk_busy", "share", "  time the busiest was busy", SHARE),
        ("io_pressure", "share", "  time somebody waited for I/O", SHARE),
    ]
    .map(|(key, unit, label, bounds)| line(key, unit, label, bounds, of(key)))
    .into()
}
