//! The limits that control groups set the ranks, and what they kept from them: both versions of the kernel's groups.
//!
//! The limit that counts is the tightest on the way from a rank's own group up to the root. Of groups that restrict
//! nothing there is nothing to say.
//!
//! Next: `share`, which takes the difference of two readings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trimtab_sensors::cgroup::{folders, memory_max, number, processors};
use trimtab_types::report::Limit;

/// Limits of the groups of some ranks at one moment, by the folder that sets them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    groups: BTreeMap<PathBuf, Group>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Group {
    name: String,
    ranks: Vec<u32>,
    processors: Option<f64>,
    throttled: Option<Throttled>,
    memory_bytes_max: Option<u64>,
    memory_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Throttled {
    periods: u64,
    throttled_periods: u64,
    seconds: f64,
}

impl Limits {
    /// Of ranks and what `/proc/PID/cgroup` says of them, below `root`, `/sys/fs/cgroup`.
    pub(crate) fn read<'a>(root: &Path, ranks: impl IntoIterator<Item = (u32, &'a str)>) -> Limits {
        let mut limits = Limits::default();
        for (rank, text) in ranks {
            let (processor, memory) = (folders(root, text, "cpu"), folders(root, text, "memory"));
            if let Some((folder, limit)) = tightest(&processor, processors) {
                let throttled = throttled(&folder);
                limits.add(rank, folder, |known| (known.processors, known.throttled) = (Some(limit), throttled));
            }
            if let Some((folder, bytes)) = tightest(&memory, memory_max) {
                let used = number(&folder, &["memory.current", "memory.usage_in_bytes"]);
                limits.add(rank, folder, |known| (known.memory_bytes_max, known.memory_bytes) = (Some(bytes), used));
            }
        }
        limits.groups.iter_mut().for_each(|(folder, group)| group.name = name(root, folder));
        limits
    }

    fn add(&mut self, rank: u32, folder: PathBuf, set: impl FnOnce(&mut Group)) {
        let group = self.groups.entry(folder).or_default();
        if !group.ranks.contains(&rank) {
            group.ranks.push(rank);
        }
        set(group);
    }

    /// For the report: these limits, and what happened since `before`.
    pub(crate) fn since(&self, before: &Limits) -> Vec<Limit> {
        let limit = |(folder, group): (&PathBuf, &Group)| {
            let earlier = before.groups.get(folder).and_then(|earlier| earlier.throttled);
            let passed = group.throttled.zip(earlier).map(|(now, earlier)| now.since(&earlier));
            Limit {
                group: group.name.clone(),
                ranks: group.ranks.clone(),
                processors: group.processors,
                throttled_s: passed.map(|passed| passed.seconds),
                throttled_periods: passed
                    .filter(|passed| passed.periods > 0)
                    .map(|passed| passed.throttled_periods as f64 / passed.periods as f64),
                memory_bytes_max: group.memory_bytes_max,
                memory_bytes: group.memory_bytes,
            }
        };
        self.groups.iter().map(limit).collect()
    }
}

impl Throttled {
    fn since(&self, earlier: &Throttled) -> Throttled {
        Throttled {
            periods: self.periods.saturating_sub(earlier.periods),
            throttled_periods: self.throttled_periods.saturating_sub(earlier.throttled_periods),
            seconds: (self.seconds - earlier.seconds).max(0.0),
        }
    }
}

fn tightest<T: Copy + PartialOrd>(folders: &[PathBuf], read: fn(&Path) -> Option<T>) -> Option<(PathBuf, T)> {
    let limits = folders.iter().filter_map(|folder| Some((folder.clone(), read(folder)?)));
    limits.reduce(|a, b| if b.1 < a.1 { b } else { a })
}

fn throttled(folder: &Path) -> Option<Throttled> {
    let text = std::fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let value = |key: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
    };
    let micro = value("throttled_usec").map(|us| us as f64 / 1e6);
    let seconds = micro.or_else(|| value("throttled_time").map(|ns| ns as f64 / 1e9))?;
    Some(Throttled { periods: value("nr_periods")?, throttled_periods: value("nr_throttled")?, seconds })
}

/// The group as users know it: its path below the root, with the hierarchy it is in.
fn name(root: &Path, folder: &Path) -> String {
    /// Enough to find it, little enough for a report.
    const LENGTH_MAX: usize = 160;
    let below = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
    let skipped = below.chars().count().saturating_sub(LENGTH_MAX);
    let end: String = below.chars().skip(skipped).collect();
    if skipped > 0 { format!("...{end}") } else { format!("/{end}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        folder
    }

    #[test]
    fn the_tightest_limit_of_the_second_version_counts() {
        let folder = tree(&[
            ("cgroup.controllers", "cpu memory\n"),
            ("job/cpu.max", "150000 100000\n"),
            ("job/cpu.stat", "usage_usec 9\nnr_periods 100\nnr_throttled 10\nthrottled_usec 2000000\n"),
            ("job/memory.max", "max\n"),
            ("job/step/cpu.max", "max 100000\n"),
            ("job/step/memory.max", "1048576\n"),
            ("job/step/memory.current", "4096\n"),
        ]);
        let read = || Limits::read(folder.path(), [(0, "0::/job/step\n"), (1, "0::/job/step\n")]);
        let before = read();
        let later = "nr_periods 120\nnr_throttled 15\nthrottled_usec 3500000\n";
        fs::write(folder.path().join("job/cpu.stat"), later).expect("a file");
        let limits = read().since(&before);
        let [processor, memory] = &limits[..] else { panic!("{limits:?}") };
        assert_eq!((processor.group.as_str(), processor.processors), ("/job", Some(1.5)));
        assert_eq!((processor.throttled_s, processor.throttled_periods), (Some(1.5), Some(0.25)));
        assert_eq!((memory.group.as_str(), memory.memory_bytes_max), ("/job/step", Some(1_048_576)));
        assert_eq!((memory.memory_bytes, &memory.ranks), (Some(4096), &vec![0, 1]));
    }

    #[test]
    fn the_first_version_is_read_too() {
        let folder = tree(&[
            ("cpu/a/cpu.cfs_quota_us", "50000\n"),
            ("cpu/a/cpu.cfs_period_us", "100000\n"),
            ("cpu/a/cpu.stat", "nr_periods 1\nnr_throttled 0\nthrottled_time 5000000000\n"),
            ("cpu/cpu.cfs_quota_us", "-1\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let read = Limits::read(folder.path(), [(3, "4:memory:/b\n3:cpu:/a\n0::/\n")]);
        let limits = read.since(&read);
        assert_eq!(limits.len(), 1, "the memory's limit is none: {limits:?}");
        assert_eq!((limits[0].processors, limits[0].throttled_s), (Some(0.5), Some(0.0)));
        assert_eq!((limits[0].group.as_str(), limits[0].throttled_periods), ("/cpu/a", None));
    }

    #[test]
    fn odd_texts_restrict_nothing() {
        let folder = tree(&[("cpu/cpu.max", "x y"), ("memory/memory.max", "-3")]);
        for text in ["", "x", "1:cpu", "3:cpu:/../../etc", "3:cpu:/\n4:memory:/", "0::/nowhere"] {
            assert_eq!(Limits::read(folder.path(), [(0, text)]), Limits::default(), "{text:?}");
        }
    }
}
