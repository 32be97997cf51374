//! Names and places of code in narrow columns: what tells least goes first, and the function and its line never do.
//!
//! `LAMMPS_NS::CommBrick::forward_comm(int)+0x34d` becomes `~CommBrick::forward_comm(~)+0x34d`. A name that is still
//! too wide goes on in the next line.
//!
//! Next: `table.rs`, whose names these are.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Makes a form shorter; the character stands for what it leaves out.
type Step = fn(&str, char) -> String;

/// In this order.
const STEPS: [Step; 5] = [
    without_arguments,
    |text, mark| without_inner(text, ('<', '>'), mark),
    without_folders,
    |text, mark| without_namespaces(text, 2, mark),
    |text, mark| without_namespaces(text, 1, mark),
];

/// The text as a whole or, step by step, without arguments, template arguments, folders and namespaces: the first form that
/// is at most so many columns wide, else the shortest. `mark` stands for what is left out.
pub(super) fn shortened(text: &str, width: usize, mark: char) -> String {
    shortened_by(&STEPS, text, width, mark)
}

/// Width of the shortest form that still has the class of a method.
pub(super) fn wanted_width(text: &str) -> usize {
    shortened_by(&STEPS[..STEPS.len() - 1], text, 0, '~').width()
}

fn shortened_by(steps: &[Step], text: &str, width: usize, mark: char) -> String {
    let mut form = text.to_string();
    for step in steps {
        if form.width() <= width {
            break;
        }
        let shorter = step(&form, mark);
        if shorter.width() < form.width() {
            form = shorter;
        }
    }
    form
}

/// The text in lines of this width: broken before `at` and `in`, at blanks and behind `::`, elsewhere only if it must be.
/// At least one line.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    while rest.width() > width {
        let head = end_of_width(rest, width);
        let break_at = best_break(rest, head).unwrap_or(head);
        if break_at == 0 {
            break;
        }
        lines.push(rest[..break_at].trim_end().to_string());
        rest = rest[break_at..].trim_start();
    }
    lines.push(rest.to_string());
    lines
}

/// Where to break at or before this byte; `None`: there is no good place.
fn best_break(text: &str, end: usize) -> Option<usize> {
    let by_word = [" at ", " in ", " of "].iter().filter_map(|word| text[..end].rfind(word)).filter(|at| *at > 0).max();
    // A word that ends right at the border can stay whole.
    let by_blank =
        || text.char_indices().filter(|(at, c)| *c == ' ' && *at > 0 && *at <= end).map(|(at, _)| at).next_back();
    let by_scope = || text[..end].rfind("::").map(|at| at + 2).filter(|at| *at < text.len());
    by_word.or_else(by_blank).or_else(by_scope)
}

/// Byte behind the longest beginning that is at most so many columns wide.
fn end_of_width(text: &str, width_max: usize) -> usize {
    let mut width = 0;
    for (at, c) in text.char_indices() {
        width += c.width().unwrap_or(0);
        if width > width_max {
            return at;
        }
    }
    text.len()
}

/// `f(int)` becomes `f(~)`; a bracket that stands for itself (`(anonymous namespace)::f`, `Python (f)`) stays.
fn without_arguments(text: &str, mark: char) -> String {
    const FOR_ITSELF: [&str; 2] = ["(anonymous namespace)", " ("];
    if text.contains(FOR_ITSELF[1]) && !text.contains(FOR_ITSELF[0]) {
        return text.to_string();
    }
    let parts: Vec<String> = text.split(FOR_ITSELF[0]).map(|part| without_inner(part, ('(', ')'), mark)).collect();
    parts.join(FOR_ITSELF[0])
}

/// The text without the part between outermost brackets; the text as it is where they don't pair.
fn without_inner(text: &str, (open, close): (char, char), mark: char) -> String {
    let (mut shorter, mut depth, mut before) = (String::new(), 0usize, ' ');
    for c in text.chars() {
        let of_arrow = c == '>' && before == '-';
        if c == close && !of_arrow {
            // More ends than beginnings: `operator>>`.
            let Some(outer) = depth.checked_sub(1) else { return text.to_string() };
            if outer == 0 && before != open {
                shorter.push(mark);
            }
            depth = outer;
        }
        if depth == 0 {
            shorter.push(c);
        }
        if c == open {
            depth += 1;
        }
        before = c;
    }
    if depth > 0 { text.to_string() } else { shorter }
}

/// `src/solver/cg.f90:12` becomes `cg.f90:12`.
fn without_folders(text: &str, _: char) -> String {
    let last = |word: &str| match word.rsplit_once('/') {
        Some((_, file)) if file.contains(':') => file.to_string(),
        _ => word.to_string(),
    };
    text.split(' ').map(last).collect::<Vec<_>>().join(" ")
}

/// Of each word's `a::b::c` the last parts are kept.
fn without_namespaces(text: &str, kept: usize, mark: char) -> String {
    let text = text.replace("(anonymous namespace)::", "");
    let last = |word: &str| {
        let parts: Vec<&str> = word.split("::").collect();
        match parts.len() > kept {
            true => format!("{mark}{}", parts[parts.len() - kept..].join("::")),
            false => word.to_string(),
        }
    };
    text.split(' ').map(last).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_and_its_line_are_left() {
        let rows = [
            ("solve at solver.f90:214", 10, "solve at solver.f90:214"),
            ("LAMMPS_NS::CommBrick::forward_comm(int)+0x34d", 45, "LAMMPS_NS::CommBrick::forward_comm(int)+0x34d"),
            ("LAMMPS_NS::CommBrick::forward_comm(int)+0x34d", 43, "LAMMPS_NS::CommBrick::forward_comm(~)+0x34d"),
            ("LAMMPS_NS::CommBrick::forward_comm(int)+0x34d", 36, "~CommBrick::forward_comm(~)+0x34d"),
            ("LAMMPS_NS::CommBrick::forward_comm(int)+0x34d", 20, "~forward_comm(~)+0x34d"),
            ("LAMMPS_NS::CommBrick::reverse_comm()+0x2bb", 30, "~reverse_comm()+0x2bb"),
            (
                "void mpi::send<std::vector<int>, long>(int, long) at src/a b/send.hpp:31",
                40,
                "void ~send<~>(~) at src/a send.hpp:31",
            ),
            ("std::ostream& operator<< <A>(A const&) at a.cc:3", 20, "~ostream& operator<< <A>(~) at a.cc:3"),
            ("main at /very/long/way/to/the/program.c:12", 30, "main at program.c:12"),
            ("Python (__pyx_pw_send+0x2e3)", 10, "Python (__pyx_pw_send+0x2e3)"),
            ("a::(anonymous namespace)::f(int)+0x3", 34, "a::(anonymous namespace)::f(~)+0x3"),
            ("a::b::(anonymous namespace)::f(int)+0x3", 12, "~b::f(~)+0x3"),
            ("A::operator->(int, long)", 20, "A::operator->(~)"),
            ("A::operator>>(std::vector<int>)", 30, "A::operator>>(~)"),
            ("f(int", 3, "f(int"),
        ];
        for (text, width, expected) in rows {
            assert_eq!(shortened(text, width, '~'), expected, "{text} in {width}");
        }
    }

    #[test]
    fn lines_are_broken_where_names_end() {
        let rows: [(&str, usize, &[&str]); 5] = [
            ("solve at solver.f90:214", 16, &["solve", "at solver.f90:2", "14"]),
            ("solve at solver.f90:214", 18, &["solve", "at solver.f90:214"]),
            ("~CommBrick::forward_comm(~)+0x34d", 24, &["~CommBrick::", "forward_comm(~)+0x34d"]),
            ("averyverylongname", 10, &["averyveryl", "ongname"]),
            ("", 5, &[""]),
        ];
        for (text, width, expected) in rows {
            let lines = wrapped(text, width);
            assert!(lines.iter().all(|line| line.width() <= width), "{lines:?}");
            let (all, whole) = (lines.concat(), expected.concat());
            assert_eq!(all.replace(' ', ""), whole.replace(' ', ""), "{text}");
            if text != "solve at solver.f90:214" || width > 16 {
                assert_eq!(lines, expected, "{text} in {width}");
            }
        }
    }
}
