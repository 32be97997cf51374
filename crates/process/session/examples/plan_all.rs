//! The cost of reading one file and deciding about all its functions: `plan_all FILE [untimed]`, as one line of JSON.
//!
//! The file, a program or a library, is mapped by a process started for it. Two processes of our own decide, one after
//! the other: the first without anything kept from earlier, the second with what the first kept on disk; each says how
//! long it took and how much memory it had at most. `digest` stands for all decisions: it is the same in both. `place`
//! is the time to make code and writes of them, which depend on addresses and are made anew for each process.
//! Next: `src/prepare.rs`.
#![forbid(unsafe_code)]

#[path = "common/requests.rs"]
mod requests;
#[path = "common/waiting.rs"]
mod waiting;

use requests::requests;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use trimtab_session::{ImageCache, Modules, Prepared, Setup};
use trimtab_stub::layout::flag;
use trimtab_types::Pid;
use waiting::Waiting;

/// Says that this is one of the two processes of our own.
const ONCE: &str = "--once";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [ONCE, pid, path, directory, mode] => {
            println!("{}", once(Pid(pid.parse()?), path, Path::new(directory), *mode != "untimed")?);
        }
        [file] => println!("{}", both(file, "timed")?),
        [file, mode @ ("timed" | "untimed")] => println!("{}", both(file, mode)?),
        _ => return Err("usage: plan_all FILE [timed|untimed]".into()),
    }
    Ok(())
}

/// The first time and the second time, each by a process of its own, so that neither has the other's memory.
fn both(file: &str, mode: &str) -> Result<Value, Box<dyn Error>> {
    let path = std::fs::canonicalize(file)?;
    let waiting = Waiting::start(file)?;
    let directory = std::env::temp_dir().join(format!("trimtab-plan-all-{}", std::process::id()));
    let run = || -> Result<Value, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        let pid = waiting.pid().to_string();
        let output = command.arg(ONCE).arg(pid).arg(&path).arg(&directory).arg(mode).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let outcome = run().and_then(|first| Ok((first, run()?)));
    let _ = std::fs::remove_dir_all(&directory);
    let (first, cached) = outcome?;
    let bytes = std::fs::metadata(&path)?.len();
    Ok(json!({ "file": path, "file_bytes": bytes, "mode": mode, "first": first, "cached": cached }))
}

fn once(pid: Pid, path: &str, directory: &Path, timed: bool) -> Result<Value, Box<dyn Error>> {
    let started = Instant::now();
    let cache = ImageCache::in_directory(directory);
    let modules = Modules::read(pid, &cache, &|mapped| mapped == path)?;
    let read_s = started.elapsed().as_secs_f64();
    let requests = requests(&modules, if timed { flag::TIMED } else { 0 });
    let prepared = Prepared::new(&modules, &requests)?;
    let total_s = started.elapsed().as_secs_f64();
    let peak_bytes = peak_bytes()?;
    let digest = prepared.digest();
    let placing = Instant::now();
    let plan = prepared.dry_run(pid, Setup { functions: requests.len() as u64, ranks: 1, details: 0 })?;
    Ok(json!({
        "functions": requests.len(),
        "refused": prepared.refused.len(),
        "reasons": reasons(&prepared),
        "places": prepared.point_count(),
        "digest": format!("{digest:016x}"),
        "read_s": read_s,
        "decide_s": total_s - read_s,
        "total_s": total_s,
        "peak_bytes": peak_bytes,
        "place_s": placing.elapsed().as_secs_f64(),
        "writes": plan.patches.len(),
        "peak_bytes_placed": self::peak_bytes()?,
    }))
}

/// How many functions are refused for which reason; addresses and other numbers left out.
fn reasons(prepared: &Prepared) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for refused in &prepared.refused {
        let reason = refused.reason.to_string();
        let words = reason.split_whitespace().filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
        *counts.entry(words.collect::<Vec<_>>().join(" ")).or_default() += 1;
    }
    counts
}

/// The most memory this process has had.
fn peak_bytes() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("/proc/self/status has no VmHWM")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}
