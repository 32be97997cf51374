//! Sets of processors as the kernel writes them: "0-3,8".

use std::collections::BTreeSet;
pub(crate) use trimtab_sensors::cgroup::parse_cpus as parse;

/// Characters of a list that is kept; beyond that it ends in "...".
const LIST_LENGTH_MAX: usize = 100;

/// Writes a list, cut to a length that a report has room for.
pub(crate) fn list(cpus: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*cpu) => *last = *cpu,
            _ => runs.push((*cpu, *cpu)),
        }
    }
    let run = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    short(&runs.iter().map(run).collect::<Vec<_>>().join(","))
}

/// A list as the kernel wrote it, cut as in [`list`].
pub(crate) fn short(text: &str) -> String {
    match text.get(..LIST_LENGTH_MAX) {
        Some(begin) if text.len() > LIST_LENGTH_MAX => {
            let whole = begin.rfind(',').map_or(begin, |comma| &begin[..comma]);
            format!("{whole},...")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for (text, count, again) in [
            ("0", 1, "0"),
            ("0-3,8", 5, "0-3,8"),
            ("8,0-3\n", 5, "0-3,8"),
            ("0,1,2", 3, "0-2"),
            ("", 0, ""),
            ("x,1-", 0, ""),
            ("3-1", 0, ""),
        ] {
            let cpus = parse(text);
            assert_eq!((cpus.len(), list(&cpus).as_str()), (count, again), "{text:?}");
        }
        assert!(parse("0-4294967295").len() <= (1 << 16) + 1, "bounded");
    }

    #[test]
    fn long_lists_are_cut_between_numbers() {
        let odd: BTreeSet<u32> = (0..200).map(|cpu| cpu * 2).collect();
        let shown = list(&odd);
        assert!(shown.len() <= LIST_LENGTH_MAX + 4 && shown.ends_with(",..."), "{shown}");
        assert!(shown.trim_end_matches(",...").split(',').all(|word| word.parse::<u32>().is_ok()), "{shown}");
    }
}
