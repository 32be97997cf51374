//! Matching names against patterns with `*` (any text) and `?` (any one byte); linear memory, no recursion.
//!
//! Next: `image`, where names are looked up.

/// True if the whole of `name` matches `pattern`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at_pattern, mut at_name) = (0, 0);
    // Where to resume when a later part fails: just after the last `*`, one byte further in the name.
    let mut resume: Option<(usize, usize)> = None;
    while at_name < name.len() {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                at_pattern += 1;
                resume = Some((at_pattern, at_name + 1));
            }
            Some(&wanted) if wanted == b'?' || wanted == name[at_name] => {
                at_pattern += 1;
                at_name += 1;
            }
            _ => match resume {
                Some((after_star, next)) => {
                    (at_pattern, at_name) = (after_star, next);
                    resume = Some((after_star, next + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at_pattern..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (case, pattern, name, expected) in [
            ("literal", "MPI_Send", "MPI_Send", true),
            ("literal, longer name", "MPI_Send", "MPI_Send_init", false),
            ("literal, shorter name", "MPI_Send", "MPI_Sen", false),
            ("star at the end", "MPI_*", "MPI_Send", true),
            ("star matches nothing", "MPI_Send*", "MPI_Send", true),
            ("star at the start", "*_init", "MPI_Send_init", true),
            ("star in the middle, second try", "a*bc", "abxbc", true),
            ("two stars", "*a*b", "xxaxxbxxb", true),
            ("two stars, no", "*a*b", "xxbxxa", false),
            ("question mark", "MPI_?end", "MPI_Send", true),
            ("question mark needs a byte", "MPI_Send?", "MPI_Send", false),
            ("star then question mark", "*?", "", false),
            ("empty and empty", "", "", true),
            ("empty pattern", "", "a", false),
            ("only stars", "**", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{case}: {pattern} on {name}");
        }
    }

    #[test]
    fn many_stars_end_in_bounded_steps() {
        let pattern = "*a".repeat(200);
        assert!(!matches(&pattern, &"b".repeat(20_000)));
    }
}
