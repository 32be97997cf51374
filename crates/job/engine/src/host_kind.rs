//! The kind of the machine that we are on, by which hosts are alike, and how fast it is.
//!
//! Next: `benchmark`, whose runs hold for this kind.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;
use trimtab_routine::{HostKind, Speed};

/// Each kind of work is done so often; the fastest counts, which nobody disturbed.
const TURNS: u32 = 7;
/// Steps of a turn of computing.
const STEPS: u64 = 3_000_000;
/// Numbers of each of three arrays that are gone through: more than caches of most processors hold.
const NUMBERS: usize = 4 << 20;
/// Clocks that differ by less are the same.
const CLOCK_STEP_MHZ: f64 = 100.0;

/// The name of this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The kind of this host.
pub fn host_kind_here() -> HostKind {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let limit = text("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    kind_of(&text("/proc/cpuinfo"), &text("/proc/meminfo"), &limit)
}

/// From the texts that the kernel shows. All processors of the host count, also those that whoever asks may not use.
fn kind_of(cpuinfo: &str, meminfo: &str, limit_khz: &str) -> HostKind {
    let of = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let fixed = limit_khz.trim().parse::<f64>().ok().map(|khz| khz / 1e3);
    let clock = fixed.or_else(|| of(cpuinfo, "cpu MHz")?.parse().ok()).unwrap_or(0.0);
    let memory = of(meminfo, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    HostKind {
        processor: of(cpuinfo, "model name").unwrap_or_else(|| "unknown processor".to_owned()),
        processors: cpuinfo.lines().filter(|line| line.starts_with("processor\t")).count().max(1),
        clock_mhz: ((clock / CLOCK_STEP_MHZ).round() * CLOCK_STEP_MHZ) as u64,
        memory_gib: (memory.unwrap_or(0.0) / f64::from(1 << 20)).round() as u64,
    }
}

/// The speed of this host, measured for some tenths of a second.
pub fn speed_here() -> Speed {
    Speed { compute_per_s: STEPS as f64 / least_s(compute), memory_bytes_per_s: memory() }
}

/// In processor time: what others take of the processor is the share that a process gets, and no part of the speed.
fn least_s(mut work: impl FnMut()) -> f64 {
    let mut turn = || {
        let begun = processor_time();
        work();
        processor_time().saturating_sub(begun).as_secs_f64()
    };
    (0..TURNS).map(|_| turn()).fold(f64::INFINITY, f64::min).max(1e-9)
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn compute() {
    let mut sums = [1.0_f64, 1.1, 1.2, 1.3];
    for step in 0..STEPS / 4 {
        let add = 1e-9 * (step & 7) as f64;
        sums.iter_mut().for_each(|sum| *sum = *sum * 0.999_999 + add);
    }
    std::hint::black_box(sums);
}

fn memory() -> f64 {
    let (one, other, mut to) = (vec![1.0_f64; NUMBERS], vec![2.0_f64; NUMBERS], vec![0.0_f64; NUMBERS]);
    let seconds = least_s(|| {
        for ((to, one), other) in to.iter_mut().zip(&one).zip(&other) {
            *to = one + 3.0 * other;
        }
        std::hint::black_box(&mut to);
    });
    (3 * NUMBERS * size_of::<f64>()) as f64 / seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_from_what_the_kernel_shows() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.60GHz\ncpu MHz\t\t: 2593.904\n\nprocessor\t: 1\nmodel name\t: other\n";
        let meminfo = "MemTotal:       24604240 kB\nMemFree: 1 kB\n";
        let kind = kind_of(cpuinfo, meminfo, "");
        assert_eq!(kind.words(), "Some CPU @ 2.60GHz, 2 processors, 2600 MHz, 23 GiB");
        assert_eq!(kind_of(cpuinfo, meminfo, "3500000\n").clock_mhz, 3500);
        assert_eq!(kind_of("", "", "").words(), "unknown processor, 1 processors, 0 MHz, 0 GiB");
    }

    #[test]
    fn time_without_a_processor_is_no_part_of_the_speed() {
        let slept = Duration::from_millis(30);
        assert!(least_s(|| std::thread::sleep(slept)) < slept.as_secs_f64() / 10.0);
    }

    #[test]
    fn this_host_has_a_speed() {
        let here = speed_here();
        assert!(here.compute_per_s > 1e6 && here.memory_bytes_per_s > 1e7, "{here:?}");
    }
}
