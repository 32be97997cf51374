//! Control groups of both versions: folders of a process's groups, and what they limit.
//!
//! Next: `groups` for the scheduler's, `memory` for memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Memory limits above this are the first version's way to say that there is none.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The folders of a process's groups for a controller, its own first, up to the root of that hierarchy. `text` is the
/// process's `cgroup` in `/proc`, `root` is `/sys/fs/cgroup`.
pub fn folders(root: &Path, text: &str, controller: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let names = |line: &str| line.split(':').nth(1).is_some_and(|all| all.split(',').any(|name| name == controller));
    // A controller is in one hierarchy only; where the first version has it, the second one says nothing of it.
    let is_first = text.lines().any(names);
    for line in text.lines().filter(|line| !is_first || names(line)) {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let base = match controllers {
            // The second version, alone or beside the first.
            "" if root.join("cgroup.controllers").exists() => root.to_owned(),
            "" => root.join("unified"),
            named if named.split(',').any(|name| name == controller) => match root.join(named).exists() {
                true => root.join(named),
                false => root.join(controller),
            },
            _ => continue,
        };
        // A path from outside never leads out of the hierarchy.
        let inside = path.trim_start_matches('/');
        if !inside.split('/').any(|name| name == "..") {
            let own = base.join(inside);
            found.extend(own.ancestors().take_while(|folder| folder.starts_with(&base)).map(Path::to_owned));
        }
    }
    found
}

/// Processors that a group may use at a time; `None`: as many as there are.
pub fn processors(folder: &Path) -> Option<f64> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let (quota, period) = match text("cpu.max") {
        Some(both) => {
            let (quota, period) = both.trim().split_once(' ')?;
            (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        }
        None => (
            text("cpu.cfs_quota_us")?.trim().parse::<f64>().ok()?,
            text("cpu.cfs_period_us")?.trim().parse::<f64>().ok()?,
        ),
    };
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// Bytes that a group's processes may have; `None`: as many as there are.
pub fn memory_max(folder: &Path) -> Option<u64> {
    number(folder, &["memory.max", "memory.limit_in_bytes"]).filter(|bytes| *bytes < UNLIMITED_BYTES)
}

/// The first number that one of some files holds.
pub fn number(folder: &Path, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok())
}

/// Bytes that a group's processes may still have: its limit, less what is in use there and can't be dropped. `None`: it sets no
/// limit, or doesn't say what is in use.
pub fn memory_left(folder: &Path) -> Option<u64> {
    let most = memory_max(folder)?;
    let used = number(folder, &["memory.current", "memory.usage_in_bytes"])?;
    let stat = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let value =
        |key: &str| stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok());
    let droppable: u64 = value("total_inactive_file").or_else(|| value("inactive_file")).unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(droppable)))
}

/// Reads a list of processors, "0-3,8"; what is no number in it is left out.
pub fn parse_cpus(text: &str) -> BTreeSet<u32> {
    /// More processors than Linux can have: a list from a damaged file must not fill memory.
    const PROCESSORS_MAX: u32 = 1 << 16;
    let bounds = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?.min(PROCESSORS_MAX)))
    };
    text.split(',').filter_map(bounds).flat_map(|(first, last)| first..=last).collect()
}
