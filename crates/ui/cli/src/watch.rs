//! `watch`: every start of a program from now on, one window each.
//!
//! Next: `watch_lines` for what is printed, `trimtab-engine`'s `watch` for how it goes.

use crate::arguments::{WatchOptions, WindowOptions};
use crate::engine::{Kept, Parts};
use crate::exit_code::{DONE, PARTIAL};
use crate::hold;
use crate::progress::Terminal;
use crate::watch_lines::Lines;
use crate::window;
use anyhow::bail;
use std::path::PathBuf;
use std::time::Duration;
use trimtab_engine::{HOLD_SECONDS, Starts};
use trimtab_standing::HostLog;

/// A program whose whole run is wanted stands still from its exec on until it is looked at, at most so long.
const STILL: Duration = Duration::from_millis(200);

/// `trimtab watch --name GLOB`.
pub fn run(
    wanted: &WatchOptions,
    options: &WindowOptions,
    store: &Option<PathBuf>,
    command_ns: u64,
) -> anyhow::Result<u8> {
    if options.dry_run || options.html.is_some() {
        bail!("watch prints a line per start; use `trimtab attach` with --dry-run, `trimtab report` with --html");
    }
    let mut starts = Starts::of(&wanted.name, wanted.sha256.as_deref(), &HostLog)?;
    let kept = Kept::open(store.as_deref())?;
    window::check_files(options)?;
    let terminal = Terminal::new()?;
    let longest_s = wanted.hold.map_or(HOLD_SECONDS, |hold_ms| hold_ms.div_ceil(1000));
    let whole_s = (hold::is_whole_run(options) && !wanted.no_hold).then_some(longest_s);
    let window = WindowOptions { first_call_s: whole_s, ..options.clone() };
    starts.count = wanted.count;
    starts.limit = wanted.seconds.map(Duration::from_secs_f64);
    starts.still = wanted.hold.map(Duration::from_millis).or(whole_s.map(|_| STILL));
    let mut lines = Lines::new(options.json.as_deref())?;
    let parts = Parts::of(None);
    let engine = parts.engine(&terminal, Some(&kept));
    let window = window::window_options(&window, "watch", command_ns)?;
    let watched = engine.watch(starts, &window, &mut |start, came| lines.tell(start, came))?;
    eprintln!("{}", lines.summary(watched));
    Ok(if watched.seen == 0 { PARTIAL } else { DONE })
}
