//! Memory that a new process may have: what the machine can give without swapping, or less where a control group limits it.
//!
//! Next: `sensor`, which asks.

use crate::cgroup;
use crate::figure::{Figure, NoFigure};
use crate::places::Places;

/// Bytes that the kernel thinks it can give without swapping; `None`: an older kernel, or a damaged text.
pub fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let mut words = line.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    (words.next() == Some("kB")).then(|| number.checked_mul(1024)).flatten()
}

/// Bytes for a new process beside one whose `cgroup` text this is.
pub(crate) fn free(places: &Places, control: Option<&str>) -> Figure {
    let text = match places.proc_text("meminfo") {
        Ok(text) => text,
        Err(error) => return Figure::none(&NoFigure::unreadable("meminfo", &error)),
    };
    let Some(available) = parse_meminfo(&text) else {
        return Figure::none(&NoFigure::NoMemory);
    };
    let folders = control.map(|text| cgroup::folders(&places.groups, text, "memory")).unwrap_or_default();
    let in_group = folders.iter().filter_map(|folder| Some((cgroup::memory_left(folder)?, folder)));
    match in_group.min_by_key(|(bytes, _)| *bytes) {
        Some((bytes, folder)) if bytes < available => {
            let name = folder.strip_prefix(&places.groups).unwrap_or(folder).display();
            Figure::of(bytes as f64, format!("limit of control group /{name} less what is in use there"))
        }
        _ => Figure::of(available as f64, "MemAvailable"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::places_with;
    use proptest::prelude::*;

    const MEMINFO: &str = "MemTotal: 24000000 kB\nMemFree: 1000 kB\nMemAvailable:   4000 kB\n";

    #[test]
    fn a_control_group_limits_memory() {
        let (_folder, places) = places_with(&[
            ("proc/meminfo", MEMINFO),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2000000\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1500000\n"),
            ("sys/fs/cgroup/memory/job/memory.stat", "cache 7\ntotal_inactive_file 100000\n"),
            ("sys/fs/cgroup/memory/wide/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let value = |control: Option<&str>| free(&places, control).value;
        assert_eq!(value(None), Some(4_096_000.0));
        assert_eq!(value(Some("4:memory:/job\n")), Some(600_000.0), "what can be dropped is free");
        assert_eq!(value(Some("4:memory:/wide\n")), Some(4_096_000.0));
    }

    #[test]
    fn what_can_not_be_read_has_a_reason() {
        let (_folder, nothing) = places_with(&[]);
        assert!(free(&nothing, None).why_not.is_some_and(|why| why.contains("meminfo")));
        let (_folder, old) = places_with(&[("proc/meminfo", "MemFree: 1000 kB\n")]);
        assert_eq!((free(&old, None).value, free(&old, None).why_not.is_some()), (None, true));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(MemAvailable:)? *[0-9]{0,25} ?(kB)?.*") {
            let _ = parse_meminfo(&text);
        }
    }
}
