//! How much memory trimtab itself may use. With too little, files can't be mapped and threads can't begin, and what is said of
//! that names something else; so after an error it is looked whether there was too little.
//!
//! Next: `main`, which asks; `last_act` of `trimtab-os` for a program that gets none at all.

use rustix::process::{Resource, getrlimit};

/// A limit is near from this share of it on: a file of a program may be as large as the rest.
const NEAR: f64 = 0.5;
/// The system's words for memory that it doesn't give.
const REFUSED: &str = "Cannot allocate memory";
const MEGABYTE: u64 = 1 << 20;

/// That memory is limited here, after an error that may be due to it.
pub fn shortage(error: &str) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    words(error, getrlimit(Resource::As).current, peak(&status).unwrap_or(u64::MAX))
}

fn words(error: &str, limit: Option<u64>, peak: u64) -> Option<String> {
    let is_near = |limit: u64| error.contains(REFUSED) || peak as f64 > limit as f64 * NEAR;
    let limit = limit.filter(|limit| is_near(*limit))?;
    let (limit_mb, peak_mb) = (limit / MEGABYTE, peak.min(limit) / MEGABYTE);
    Some(format!(
        "its memory is limited to {limit_mb} MB here, of which it had up to {peak_mb}, and that may be why: give it more (`ulimit -v`)"
    ))
}

/// Bytes of addresses that this process had at most.
fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_memory_is_named_where_it_may_be_the_cause() {
        const MB: u64 = MEGABYTE;
        for (name, error, limit, peak, is_named) in [
            ("no limit", "mmap failed: Cannot allocate memory", None, 900 * MB, false),
            ("refused", "mmap failed: Cannot allocate memory", Some(300 * MB), 90 * MB, true),
            ("near", "nothing can be patched", Some(100 * MB), 90 * MB, true),
            ("far", "nothing can be patched", Some(900 * MB), 90 * MB, false),
        ] {
            let said = words(error, limit, peak);
            assert_eq!(said.is_some(), is_named, "{name}: {said:?}");
        }
        let said = words("", Some(100 * MB), 90 * MB).unwrap_or_default();
        assert!(said.contains("limited to 100 MB here, of which it had up to 90"), "{said}");
        assert_eq!(peak("Name:\tx\nVmPeak:\t   2048 kB\n"), Some(2 * MB));
    }
}
