//! A short probe: a thread that computes at a nice level for some milliseconds, and the share of a processor that it got.
//!
//! It runs when it begins and when it ends, so time from the first to the last moment would hold one wait too few. The time that
//! counts goes from the beginning to the last moment at which it came back to its processor: then runs and waits come in pairs.
//! A few pairs say nothing: one wait that comes early would be nearly all of that time. Then all of the time counts.
//!
//! Next: `sensor`, which corrects by it.

use rustix::process::setpriority_process;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::io;

/// A gap between two looks at the clock that only another one's turn explains.
const TURN_NS: u64 = 300_000;

/// Pairs of a run and a wait from which on they tell the share.
const PAIRS_MIN: u32 = 4;

/// How much a probe may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Processor time, seconds.
    pub cpu_s: f64,
    /// Time, seconds.
    pub wall_s: f64,
}

impl Default for Budget {
    /// 30 ms of a processor: every minute that is a twentieth of a percent of it.
    fn default() -> Self {
        Budget { cpu_s: 0.03, wall_s: 0.3 }
    }
}

/// A probe's result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spun {
    /// Share of a processor that it got.
    pub share: f64,
    /// How often it had to wait for one.
    pub turns: u32,
    /// Processor time that it took, seconds.
    pub cpu_s: f64,
    /// Time that it took, seconds.
    pub wall_s: f64,
}

/// Computes at this level, in a thread of its own.
///
/// # Errors
/// No thread can be started, or the level is not allowed.
pub fn spin(nice: i32, budget: Budget) -> io::Result<Spun> {
    let work = move || {
        // Of the calling thread alone, as the kernel has it.
        setpriority_process(None, nice)?;
        Ok(run(budget))
    };
    let thread = std::thread::Builder::new().name("trimtab-probe".to_owned()).spawn(work)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the probe's thread failed")))
}

fn run(budget: Budget) -> Spun {
    let wall = || nanoseconds(ClockId::Monotonic);
    let cpu = || nanoseconds(ClockId::ThreadCPUTime);
    let (wall_first, cpu_first) = (wall(), cpu());
    let (cpu_max, wall_max) = ((budget.cpu_s * 1e9) as u64, (budget.wall_s * 1e9) as u64);
    let (mut last, mut turns, mut back) = (wall_first, 0, None);
    let mut number = 1_u64;
    loop {
        (0..512).for_each(|_| number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)));
        let now = wall();
        if now - last > TURN_NS {
            turns += 1;
            back = Some((now - wall_first, cpu() - cpu_first));
        }
        last = now;
        let used = cpu() - cpu_first;
        if used >= cpu_max || now - wall_first >= wall_max {
            let whole = (now - wall_first, used);
            let share = share_of(whole, back, turns);
            return Spun { share, turns, cpu_s: whole.1 as f64 / 1e9, wall_s: whole.0 as f64 / 1e9 };
        }
    }
}

/// Of wall and processor time, nanoseconds, until its end, and until it last came back.
fn share_of(whole: (u64, u64), until_back: Option<(u64, u64)>, turns: u32) -> f64 {
    let (wall_ns, cpu_ns) = until_back.filter(|_| turns >= PAIRS_MIN).unwrap_or(whole);
    (cpu_ns as f64 / wall_ns.max(1) as f64).clamp(0.0, 1.0)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_keeps_to_its_budget_of_processor_time() {
        let spun = spin(0, Budget { cpu_s: 0.01, wall_s: 30.0 }).expect("a thread");
        // One round more than the budget at most, and whatever an interrupt takes.
        assert!(spun.cpu_s >= 0.01 && spun.cpu_s < 0.05, "{spun:?}");
        assert!(spun.share > 0.0 && spun.share <= 1.0, "{spun:?}");
    }

    #[test]
    fn a_single_wait_that_comes_early_is_not_all_that_counts() {
        assert_eq!(share_of((40, 30), Some((10, 1)), 1), 0.75);
        assert_eq!(share_of((90, 42), Some((80, 40)), PAIRS_MIN), 0.5);
        assert_eq!(share_of((30, 30), None, 0), 1.0);
    }

    #[test]
    fn a_level_that_is_not_allowed_is_an_error() {
        if rustix::process::geteuid().is_root() {
            assert!(spin(-5, Budget { cpu_s: 0.001, wall_s: 30.0 }).is_ok());
        } else {
            assert!(spin(-5, Budget::default()).is_err());
        }
    }
}
