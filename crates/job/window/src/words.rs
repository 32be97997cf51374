//! Ranks and times in words.
//!
//! Next: `headline` and `remarks`, which use them.

/// "rank 3", "ranks 0-2, 5".
pub fn name_ranks(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*rank) => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let text = |(from, to): &(u32, u32)| match to - from {
        0 => from.to_string(),
        1 => format!("{from}, {to}"),
        _ => format!("{from}-{to}"),
    };
    let plural = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{plural} {}", runs.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// Three digits with a fitting unit.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.2} us", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_by_name() {
        let cases: [(&str, &[u32], &str); 4] = [
            ("one", &[3], "rank 3"),
            ("two", &[3, 4], "ranks 3, 4"),
            ("run", &[0, 1, 2, 5], "ranks 0-2, 5"),
            ("apart", &[0, 2], "ranks 0, 2"),
        ];
        for (name, ranks, expected) in cases {
            assert_eq!(name_ranks(ranks), expected, "{name}");
        }
    }
}
