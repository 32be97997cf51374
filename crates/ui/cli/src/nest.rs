//! `loops`: the nest of the program's loops that are running, how often each is passed, and which of them a window would
//! take for its iteration.
//!
//! Next: `trimtab-engine`'s `loops`, which finds them; `nest_shown` for what is printed.

use crate::arguments::LoopsOptions;
use crate::engine::Parts;
use crate::exit_code::{DONE, PARTIAL};
use crate::progress::Terminal;
use crate::{departed, nest_shown, output, probe};
use anyhow::Context as _;
use std::path::PathBuf;
use trimtab_engine::LoopsWanted;
use trimtab_types::Pid;

/// `trimtab loops PID|JOB`.
pub fn show(options: &LoopsOptions, target: &str, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    let pid = match target.parse() {
        Ok(pid) => Pid(pid),
        Err(_) => probe::process_of(target, store)
            .with_context(|| format!("`{target}` is no process id and no job that runs"))?,
    };
    let LoopsOptions { samples, max_seconds, process, seccomp_ok, json } = *options;
    let wanted = LoopsWanted { only_process: process, samples, max_seconds, seccomp_ok };
    let terminal = Terminal::new()?;
    let found = Parts::of(None).engine(&terminal, None).loops(pid, &wanted)?;
    let text = match json {
        true => serde_json::to_string_pretty(&nest_shown::as_json(&found))?,
        false => nest_shown::text(&found),
    };
    output::print_text(&text)?;
    let code = if found.choice.is_some() { DONE } else { PARTIAL };
    Ok(departed::told(&found.ends, code))
}
