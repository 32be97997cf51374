//! The process that is killed: puts probes into a process and takes them out again and again until that happens.
//!
//! Next: `target` starts it, kills it and undoes what it left.

use crate::cycle::{Choice, begin_recording};
use crate::random::Random;
use anyhow::Result;
use std::io::Write;
use std::time::Duration;
use trimtab_session::{ImageCache, Modules, Prepared, Setup};
use trimtab_types::Pid;

/// Longest time probes stay in.
const WAIT_US_MAX: u64 = 2000;
/// Cycles after which it ends by itself, in case nobody kills it.
const CYCLES_MAX: usize = 10_000;
/// The line that it prints once all is prepared.
pub(crate) const READY: &str = "ready";

/// Inserts `count` random functions of `pid` and removes them, until killed.
pub fn inserter(pid: Pid, seed: u64, count: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let modules = Modules::read(pid, &ImageCache::of_user(), &|_| true)?;
    let choice = Choice { seed: random.bits(), count, wait: Duration::ZERO };
    let requests = choice.requests(&modules, &[]);
    let prepared = Prepared::new(&modules, &requests)?;
    println!("{READY}");
    std::io::stdout().flush()?;
    let setup = Setup { functions: requests.len() as u64, ranks: 1, details: 0 };
    for _ in 0..CYCLES_MAX {
        let mut inserted = prepared.insert(pid, setup, &begin_recording)?;
        std::thread::sleep(Duration::from_micros(random.below(WAIT_US_MAX)));
        inserted.remove()?;
    }
    Ok(())
}
