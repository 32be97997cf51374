//! The scheduler's groups of a process: control groups with a weight or a quota, and the sessions that the kernel groups by itself.
//!
//! Where sessions are grouped (autogroup), a nice level counts among the processes of one session only, and sessions share alike.
//! Only processes outside of control groups of processors are in such a session.
//!
//! Next: `share`, which makes the tree of them.

use crate::cgroup;
use crate::places::Places;
use std::collections::BTreeMap;
use std::path::Path;

/// The weight of a process or group that nobody gave another one.
pub(crate) const USUAL_WEIGHT: f64 = 1024.0;
/// A nice level is worth so much more than the next.
const NICE_STEP: f64 = 1.25;
/// The second version of control groups counts in hundreds what the first one counts in 1024ths.
const SECOND_VERSION_USUAL: f64 = 100.0;

/// Facts of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GroupFacts {
    pub weight: f64,
    /// Processors at most; infinite: no quota.
    pub quota: f64,
}

/// Groups that were met, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub names: Vec<String>,
    pub facts: Vec<GroupFacts>,
    known: BTreeMap<String, usize>,
}

/// The weight of a nice level.
pub(crate) fn weight_of_nice(nice: i32) -> f64 {
    USUAL_WEIGHT / NICE_STEP.powi(nice.clamp(-20, 19))
}

/// Number of the session's group and its own nice level, from `/proc/PID/autogroup`; `None`: it is in none.
pub fn parse_autogroup(text: &str) -> Option<(u64, i32)> {
    let mut words = text.split_whitespace();
    let number = words.next()?.strip_prefix("/autogroup-")?.parse().ok()?;
    let nice = match (words.next(), words.next()) {
        (Some("nice"), Some(level)) => level.parse().ok()?,
        _ => 0,
    };
    Some((number, nice))
}

/// True if the kernel groups by sessions.
pub(crate) fn groups_sessions(places: &Places) -> bool {
    places.proc_text("sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1")
}

impl Groups {
    /// The groups of a process from the outermost on, by the texts of its `cgroup` and `autogroup`.
    pub(crate) fn path(&mut self, places: &Places, control: &str, autogroup: Option<&str>) -> Vec<usize> {
        let folders = cgroup::folders(&places.groups, control, "cpu");
        // The last one is the root, which is no group.
        let own = folders.len().saturating_sub(1);
        let mut path: Vec<usize> = folders[..own].iter().rev().filter_map(|folder| self.of_folder(folder)).collect();
        if path.is_empty()
            && let Some((number, nice)) = autogroup.and_then(parse_autogroup)
        {
            let facts = GroupFacts { weight: weight_of_nice(nice), quota: f64::INFINITY };
            path.push(self.add(format!("session group {number}"), facts));
        }
        path
    }

    /// A group of one's own at the top, as of a new session.
    pub(crate) fn add(&mut self, name: String, facts: GroupFacts) -> usize {
        if let Some(known) = self.known.get(&name) {
            return *known;
        }
        self.facts.push(facts);
        self.names.push(name.clone());
        self.known.insert(name, self.facts.len() - 1);
        self.facts.len() - 1
    }

    fn of_folder(&mut self, folder: &Path) -> Option<usize> {
        let name = folder.display().to_string();
        if let Some(known) = self.known.get(&name) {
            return Some(*known);
        }
        let number = |file: &str| std::fs::read_to_string(folder.join(file)).ok()?.trim().parse::<f64>().ok();
        let first = || number("cpu.shares");
        let second = || Some(number("cpu.weight")? / SECOND_VERSION_USUAL * USUAL_WEIGHT);
        // Without a weight its processes are scheduled with those of the group above.
        let weight = second().or_else(first).filter(|weight| *weight > 0.0)?;
        let quota = cgroup::processors(folder).unwrap_or(f64::INFINITY);
        Some(self.add(name, GroupFacts { weight, quota }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::places_with;

    #[test]
    fn nice_levels_have_weights() {
        for (nice, expected) in [(0, 1024.0), (19, 14.76), (-20, 88817.8), (5, 335.5)] {
            assert!((weight_of_nice(nice) / expected - 1.0).abs() < 1e-3, "{nice}");
        }
    }

    #[test]
    fn sessions_are_groups() {
        for (text, expected) in [
            ("/autogroup-23729 nice 0\n", Some((23729, 0))),
            ("/autogroup-7 nice -5\n", Some((7, -5))),
            ("/autogroup-7\n", Some((7, 0))),
            ("", None),
            ("/autogroup-x nice 0", None),
            ("/autogroup-7 nice x", None),
        ] {
            assert_eq!(parse_autogroup(text), expected, "{text:?}");
        }
    }

    #[test]
    fn control_groups_of_both_versions_have_weight_and_quota() {
        let (_first, places) = places_with(&[
            ("sys/fs/cgroup/cpu/job/cpu.shares", "512\n"),
            ("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "25000\n"),
            ("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/cpu.shares", "1024\n"),
        ]);
        let mut groups = Groups::default();
        let path = groups.path(&places, "4:memory:/x\n1:cpu:/job\n0::/\n", Some("/autogroup-7 nice 0"));
        assert_eq!(path, [0], "in a control group no session counts");
        assert_eq!(groups.facts[0], GroupFacts { weight: 512.0, quota: 0.25 });
        assert_eq!(groups.path(&places, "1:cpu:/\n", Some("/autogroup-7 nice 19")), [1]);
        assert!((groups.facts[1].weight - 14.76).abs() < 0.01);
        assert_eq!(groups.path(&places, "1:cpu:/job\n", None), [0], "known");
        assert!(groups.path(&places, "1:cpu:/\n", None).is_empty());
        let (_second, places) = places_with(&[
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/system.slice/cpu.weight", "100\n"),
            ("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/system.slice/job/memory.max", "max\n"),
        ]);
        let mut groups = Groups::default();
        assert_eq!(groups.path(&places, "0::/system.slice/job\n", None), [0], "a group without weight is none");
        assert_eq!(groups.facts[0], GroupFacts { weight: 1024.0, quota: 1.5 });
    }
}
