//! Lists of hosts as Slurm writes them: `n[01-03,7],login`.
//!
//! Only the usual form is understood here, one bracket at the end of each name; for any other Slurm is asked.

/// More names than any cluster has nodes: a list that claims more is not believed.
const COUNT_MAX: usize = 1 << 20;

/// The names of a list, in its order; `None` if Slurm has to be asked.
pub(super) fn expand(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        let (head, tail) = rest.split_at(end);
        if head.is_empty() || !head.chars().all(is_of_a_name) {
            return None;
        }
        let after = match tail.strip_prefix('[') {
            None => {
                names.push(head.to_owned());
                tail
            }
            Some(tail) => {
                let (inside, after) = tail.split_once(']')?;
                add_numbered(head, inside, &mut names)?;
                after
            }
        };
        rest = match after.strip_prefix(',') {
            Some("") => return None,
            Some(rest) => rest,
            None if after.is_empty() => after,
            // Something behind the bracket: another one, or more of the name.
            None => return None,
        };
    }
    (!names.is_empty()).then_some(names)
}

fn is_of_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.".contains(character)
}

/// `01-03,7` behind a name.
fn add_numbered(head: &str, inside: &str, names: &mut Vec<String>) -> Option<()> {
    for part in inside.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let (from, to) = (number(first)?, number(last)?);
        let count = to.checked_sub(from)?;
        if count >= (COUNT_MAX - names.len()) as u64 {
            return None;
        }
        let width = first.len();
        names.extend((from..=to).map(|number| format!("{head}{number:0width$}")));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded_as_slurm_does() {
        for (list, names) in [
            ("n1", "n1"),
            ("n[1-3]", "n1 n2 n3"),
            ("n[01-03,7],login", "n01 n02 n03 n7 login"),
            ("n[099-101]", "n099 n100 n101"),
            ("a-b_c.d[5],x[0-1]", "a-b_c.d5 x0 x1"),
            ("n1,n2", "n1 n2"),
        ] {
            assert_eq!(expand(list).map(|names| names.join(" ")).as_deref(), Some(names), "{list}");
        }
    }

    #[test]
    fn what_is_unusual_is_left_to_slurm() {
        for list in [
            "",
            ",",
            "n1,",
            "n[1-3",
            "n[3-1]",
            "n[]",
            "n[1-2]r[3-4]",
            "n[1-2]x",
            "[1-2]",
            "n[a-b]",
            "n[+1-2]",
            "n[1-2-3]",
            "n 1",
            "n]1",
            "n[0-99999999999]",
            "n[0-1048576]",
            "(null)",
        ] {
            assert_eq!(expand(list), None, "{list}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_much(list in "[n0-9,\\[\\]-]{0,24}") {
            let count = expand(&list).map_or(0, |names| names.len());
            proptest::prop_assert!(count <= COUNT_MAX, "{count}");
        }
    }
}
