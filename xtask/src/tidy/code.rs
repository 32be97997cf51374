//! Rules about Rust text: purpose first, short functions, `unsafe` in its rooms, nothing unfinished, nothing that
//! panics, no library that prints.
//!
//! They search the views of `rust_source`, so that a word in a string is not taken for code.
//!
//! Next: `rooms` for rules about what code may use.

use super::Finding;
use super::rust_source::{line_of, word_places};
use super::tree::Tree;
use std::collections::BTreeSet;

/// The longest function allowed, in lines; aim for 25. A longer one is read by nobody in one go.
pub const FUNCTION_LINE_COUNT_MAX: usize = 70;

/// The only folders, and files, whose Rust may say `unsafe`, each with its reason.
const UNSAFE_ROOMS: &[(&str, &str)] = &[
    ("crates/process/os/", "system calls: ptrace, memfd, shared mappings"),
    ("crates/process/stub/", "runs inside the target, on raw memory"),
    ("crates/process/x86/tests/", "executes the code it relocated"),
    ("crates/process/snippet/tests/", "executes the code it emitted"),
    ("crates/ui/capi/src/edge.rs", "pointers from programs in C"),
    ("testing/fuzz/src/coverage.rs", "the compiler's C interface to coverage counters"),
];

/// Words that mean unfinished work, each with what to do; searched in code and comments.
const UNFINISHED: &[(&str, &str)] = &[
    ("todo!", "write the code, or return an error that says what is not supported"),
    ("unimplemented!", "write the code, or return an error that says what is not supported"),
    ("dbg!", "remove it, or return the value and test it"),
    ("#[ignore", "make the test run, or let it say why it was skipped as in docs/testing.md"),
    ("FIXME", "mend it now, or open an issue and describe today's behaviour in a test"),
    ("XXX", "say in words what is meant"),
    ("TODO", "do it now, or open an issue and describe today's behaviour in a test"),
];

/// Words with which no sentence of a comment begins: it says who does what.
const OPENINGS: [&str; 5] = ["What", "Who", "Whose", "Whom", "Whether"];

/// The only crate of ours that prints, and the macros by which others would.
const PRINTS: &str = "crates/ui/cli/";
const PRINTED_BY: [&str; 4] = ["println!", "eprintln!", "print!", "eprint!"];

/// Every Rust file starts with `//!`.
pub fn files_open_with_their_purpose(tree: &Tree) -> Vec<Finding> {
    let silent = tree.files.iter().filter(|file| file.rust.is_some() && !file.text.starts_with("//! "));
    let message = "start the file with `//!`: what it is, why it exists, where to look next";
    silent.map(|file| Finding::new(&file.path, 1, message)).collect()
}

/// No function is longer than [`FUNCTION_LINE_COUNT_MAX`].
pub fn functions_are_short(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.rust_files() {
        for function in source.functions().iter().filter(|function| function.line_count > FUNCTION_LINE_COUNT_MAX) {
            let message = format!(
                "`{}` has {} lines, at most {FUNCTION_LINE_COUNT_MAX}: give its steps names and move them out",
                function.name, function.line_count
            );
            findings.push(Finding::new(path, function.line, message));
        }
    }
    findings
}

/// `unsafe` is written in [`UNSAFE_ROOMS`] and nowhere else, tests included.
pub fn unsafe_stays_in_its_rooms(tree: &Tree) -> Vec<Finding> {
    let rooms: Vec<&str> = UNSAFE_ROOMS.iter().map(|(folder, _)| *folder).collect();
    let message = format!(
        "no `unsafe` here: call a safe function of trimtab-os, or add one there (allowed: {})",
        rooms.join(", ")
    );
    let outside = tree.rust_files().filter(|(path, _)| !rooms.iter().any(|room| path.starts_with(room)));
    outside.flat_map(|(path, source)| find(path, &source.code, "unsafe", &message)).collect()
}

/// Nothing says it will be written later.
pub fn unfinished_work_is_absent(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (word, instead) in UNFINISHED {
        let message = format!("no `{word}`: {instead}");
        for (path, source) in tree.rust_files() {
            findings.extend(find(path, &source.code, word, &message));
            findings.extend(find(path, &source.comments, word, &message));
        }
        let others = tree.files.iter().filter(|file| is_other_source(&file.path));
        findings.extend(others.flat_map(|file| find(&file.path, &file.text, word, &message)));
    }
    findings
}

/// No line of a comment and no sentence in one begins with one of [`OPENINGS`].
pub fn comments_begin_with_a_subject(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.rust_files() {
        for (index, line) in source.comments.lines().enumerate() {
            let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
            if let Some(first) = first_words(text).find(|first| OPENINGS.contains(first)) {
                let message =
                    format!("no sentence of a comment begins with `{first}`: write one with a subject and a verb");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// The first word of a line, and of each sentence or part of one that begins in it.
fn first_words(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.match_indices(['.', ':', ';', '!', '?']).map(|(at, _)| at + 1);
    let begins = ends.filter(|at| line[*at..].starts_with(' '));
    let first = |at: usize| line[at..].trim_start().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    [0].into_iter().chain(begins).map(first)
}

/// A type of ours has one name: where two would meet under the same one, one of them gets its own where it is defined. `Error`
/// is the name that each crate has for its own.
pub fn types_have_one_name(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.rust_files() {
        for (offset, statement) in uses(&source.code) {
            for (place, _) in statement.match_indices(" as ") {
                let name = statement[..place].rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                let other = statement[place + 4..].split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                if is_type(name) && is_type(other) && name != "Error" {
                    let message = format!("no `{name} as {other}`: give the type its own name where it is defined");
                    findings.push(Finding::new(path, line_of(&source.code, offset + place), message));
                }
            }
        }
    }
    findings
}

/// The `use` statements of names of ours, each with its offset.
fn uses(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let statements = code.match_indices("use ").map(|(at, _)| (at, &code[at..]));
    let begins = |at: usize| at == 0 || code[..at].ends_with([' ', '\n']);
    let of_ours = |names: &str| ["crate::", "super::", "self::", "trimtab_"].iter().any(|root| names.starts_with(root));
    let ours = statements.filter(move |(at, rest)| begins(*at) && of_ours(&rest[4..]));
    ours.map(|(at, rest)| (at, &rest[..rest.find(';').unwrap_or(rest.len())]))
}

/// A name like those of types: `Usage`, not `usage` or `USAGE`.
fn is_type(name: &str) -> bool {
    name.starts_with(|first: char| first.is_uppercase()) && name.contains(|letter: char| letter.is_lowercase())
}

/// `unwrap()` only in tests; `expect` only with its reason; threads by a way that can fail.
pub fn production_code_does_not_panic(tree: &Tree) -> Vec<Finding> {
    let test_files = test_module_files(tree);
    let mut findings = Vec::new();
    for (path, source) in tree.rust_files() {
        let ships = path.starts_with("crates/") || path.starts_with("xtask/");
        if !ships || in_test_folder(path) || test_files.contains(path) {
            continue;
        }
        let unwrap = "no `unwrap()` outside tests: return an error, or `expect(\"why it cannot fail\")`";
        findings.extend(find(path, &source.production, ".unwrap()", unwrap));
        let reason = "give `expect` its reason: why this cannot fail";
        findings.extend(find(path, &source.production, ".expect(\"\")", reason));
        if path.starts_with("crates/") && !path.contains("/examples/") {
            let thread = "this panics where the system gives no thread: use `thread::Builder`, and say what then";
            findings.extend(find(path, &source.production, "thread::spawn(", thread));
            findings.extend(find(path, &source.production, "scope.spawn(", thread));
        }
    }
    findings
}

/// A library says what goes on as values, events and notices; the programs that use it decide what is printed. The command
/// line alone prints.
pub fn libraries_do_not_print(tree: &Tree) -> Vec<Finding> {
    let test_files = test_module_files(tree);
    let mut findings = Vec::new();
    for (path, source) in tree.rust_files() {
        let is_library = path.starts_with("crates/") && path.contains("/src/") && !path.starts_with(PRINTS);
        if !is_library || in_test_folder(path) || test_files.contains(path) {
            continue;
        }
        for name in PRINTED_BY {
            let message = format!("no `{name}` in a library: tell an event, return it, or `trimtab_types::notice` it");
            findings.extend(find(path, &source.production, name, &message));
        }
    }
    findings
}

/// True if `path` lies in a crate's folder for tests or benchmarks.
pub fn in_test_folder(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches"))
}

/// The files that some `#[cfg(test)] mod NAME;` names.
pub fn test_module_files(tree: &Tree) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for (path, source) in tree.rust_files() {
        if source.only_tests {
            files.insert(path.to_string());
        }
        for name in &source.test_modules {
            let folder = module_folder(path);
            files.insert(format!("{folder}/{name}.rs"));
            files.insert(format!("{folder}/{name}/mod.rs"));
        }
    }
    files
}

/// The folder in which the modules declared by `path` lie.
fn module_folder(path: &str) -> &str {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder,
        _ => path.trim_end_matches(".rs"),
    }
}

fn is_other_source(path: &str) -> bool {
    [".c", ".h", ".cpp", ".hpp", ".f90", ".F90", ".sh", ".py"].iter().any(|ending| path.ends_with(ending))
}

fn find(path: &str, text: &str, word: &str, message: &str) -> Vec<Finding> {
    word_places(text, word).map(|place| Finding::new(path, line_of(text, place), message)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::examples;
    use super::*;

    /// The lines at which `rule` finds something in one file.
    fn lines(rule: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        rule(&examples::files(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn purpose_comes_first() {
        for (name, text, expected) in [
            ("purpose", "//! What.\nfn f() {}", vec![]),
            ("none", "fn f() {}", vec![1]),
            ("plain comment", "// What.\n", vec![1]),
            ("empty purpose", "//!\n", vec![1]),
            ("empty file", "", vec![1]),
        ] {
            assert_eq!(lines(files_open_with_their_purpose, "crates/a/src/lib.rs", text), expected, "{name}");
        }
        assert!(lines(files_open_with_their_purpose, "testing/a.c", "int x;").is_empty());
    }

    #[test]
    fn long_functions_are_found() {
        for (line_count, expected) in [(70, vec![]), (71, vec![2])] {
            let text = format!("\nfn f() {{{}}}\n", "\n".repeat(line_count - 1));
            assert_eq!(lines(functions_are_short, "xtask/src/a.rs", &text), expected, "{line_count}");
        }
    }

    #[test]
    fn unsafe_outside_its_rooms_is_found() {
        let block = "fn f() {\n unsafe { g() }\n}";
        for (name, path, text, expected) in [
            ("pure room", "crates/process/plan/src/lib.rs", block, vec![2]),
            ("os", "crates/process/os/src/lib.rs", block, vec![]),
            ("stub", "crates/process/stub/src/lib.rs", block, vec![]),
            ("tests that execute", "crates/process/x86/tests/run.rs", block, vec![]),
            ("the crate they test", "crates/process/x86/src/lib.rs", block, vec![2]),
            ("a name that starts alike", "crates/process/os_more/src/lib.rs", block, vec![2]),
            ("tests elsewhere", "crates/job/mpi/tests/a.rs", block, vec![2]),
            ("lint names and comments", "crates/job/mpi/src/lib.rs", "#![forbid(unsafe_code)] // unsafe", vec![]),
        ] {
            assert_eq!(lines(unsafe_stays_in_its_rooms, path, text), expected, "{name}");
        }
    }

    #[test]
    fn unfinished_work_is_found() {
        for (name, path, text, expected) in [
            ("macro", "a.rs", "fn f() {\n todo!()\n}", vec![2]),
            ("other macro", "a.rs", "unimplemented!()", vec![1]),
            ("debug print", "a.rs", "\n\ndbg!(x)", vec![3]),
            ("ignored test", "a.rs", "#[ignore = \"slow\"]", vec![1]),
            ("comment", "a.rs", "// FIXME: x", vec![1]),
            ("later", "a.rs", "/// TODO x", vec![1]),
            ("string", "a.rs", "f(\"FIXME todo!()\")", vec![]),
            ("longer word", "a.rs", "// mkstemp XXXXXX, my_todo!()", vec![]),
            ("C", "a.c", "/* XXX */", vec![1]),
            ("prose", "a.md", "FIXME is not allowed", vec![]),
        ] {
            assert_eq!(lines(unfinished_work_is_absent, path, text), expected, "{name}");
        }
    }

    #[test]
    fn comments_without_a_subject_are_found() {
        for (name, path, text, expected) in [
            ("purpose", "a.rs", "//! What it is.\n", vec![1]),
            ("item", "a.rs", "/// The name.\n/// Whose it is.\nfn f() {}", vec![2]),
            ("in code", "a.rs", "fn f() {\n    // Who asks first.\n}", vec![2]),
            ("longer word", "a.rs", "/// Whatever comes.\nfn f() {}", vec![]),
            ("later in the sentence", "a.rs", "/// Says what it is.\nfn f() {}", vec![]),
            ("second sentence", "a.rs", "/// A name. Whose it is.\nfn f() {}", vec![1]),
            ("after a colon", "a.rs", "// One: What else.", vec![1]),
            ("in a path", "a.rs", "/// Of a.What, or a::Who.\nfn f() {}", vec![]),
            ("string", "a.rs", "f(\"\n// What\")", vec![]),
        ] {
            assert_eq!(lines(comments_begin_with_a_subject, path, text), expected, "{name}");
        }
    }

    #[test]
    fn second_names_of_types_are_found() {
        let cases = [
            ("alone", "use trimtab_a::Usage as RawUsage;", vec![1]),
            ("among others", "use crate::a::{\n    Kept, Usage as RawUsage,\n};", vec![2]),
            ("public", "pub use super::Usage as RawUsage;", vec![1]),
            ("an error", "use trimtab_a::Error as AError;", vec![]),
            ("not of ours", "use rustix::process::Pid as RawPid;", vec![]),
            ("a constant", "use trimtab_a::SCHEMA as A_SCHEMA;", vec![]),
            ("a conversion", "fn f() { g(x as Word); <A as B>::c() }", vec![]),
        ];
        for (case, text, expected) in cases {
            assert_eq!(lines(types_have_one_name, "crates/a/src/b.rs", text), expected, "{case}");
        }
    }

    #[test]
    fn libraries_that_print_are_found() {
        let says = "fn f() {\n eprintln!(\"x\");\n}";
        for (name, path, text, expected) in [
            ("library", "crates/a/src/lib.rs", says, vec![2]),
            ("each macro", "crates/a/src/lib.rs", "print!(x);\nprintln!(x);\neprint!(x);", vec![1, 2, 3]),
            ("command line", "crates/ui/cli/src/main.rs", says, vec![]),
            ("test module", "crates/a/src/lib.rs", "#[cfg(test)]\nmod t { fn f() { println!() } }", vec![]),
            ("example", "crates/a/examples/b.rs", says, vec![]),
            ("not shipped", "testing/a/src/lib.rs", says, vec![]),
            ("text", "crates/a/src/lib.rs", "/// println!(x)\nfn f() -> &str { \"println!\" }", vec![]),
            ("told otherwise", "crates/a/src/lib.rs", "writeln!(out, x)?; notice(x);", vec![]),
        ] {
            let mut found = lines(libraries_do_not_print, path, text);
            found.sort_unstable();
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn panics_outside_tests_are_found() {
        let bare = "fn f() {\n g().unwrap()\n}";
        for (name, path, text, expected) in [
            ("production", "crates/a/src/lib.rs", bare, vec![2]),
            ("across lines", "crates/a/src/lib.rs", "g()\n  .unwrap();", vec![2]),
            ("test module", "crates/a/src/lib.rs", "#[cfg(test)]\nmod t { fn f() { g().unwrap() } }", vec![]),
            ("test folder", "crates/a/tests/b.rs", bare, vec![]),
            ("specimen", "testing/specimens/src/lib.rs", bare, vec![]),
            ("relatives", "crates/a/src/lib.rs", "g().unwrap_or(1); h().unwrap_or_default()", vec![]),
            ("reason", "crates/a/src/lib.rs", "g().expect(\"the header was checked\")", vec![]),
            ("no reason", "crates/a/src/lib.rs", "g().expect(\"\")", vec![1]),
            ("doc example", "crates/a/src/lib.rs", "/// g().unwrap()", vec![]),
            ("thread", "crates/a/src/lib.rs", "std::thread::spawn(f);", vec![1]),
            ("thread of a scope", "crates/a/src/lib.rs", "thread::scope(|scope| {\n scope.spawn(f);\n})", vec![2]),
            ("thread that may fail", "crates/a/src/lib.rs", "thread::Builder::new().spawn(f)?;", vec![]),
            ("thread of an example", "crates/a/examples/b.rs", "std::thread::spawn(f);", vec![]),
        ] {
            assert_eq!(lines(production_code_does_not_panic, path, text), expected, "{name}");
        }
    }

    #[test]
    fn test_modules_in_files_of_their_own_may_unwrap() {
        let body = "fn f() { g().unwrap() }";
        let declare = "#[cfg(test)]\nmod checks;";
        for (name, parent, child, expected) in [
            ("beside lib", "crates/a/src/lib.rs", "crates/a/src/checks.rs", 0),
            ("folder", "crates/a/src/lib.rs", "crates/a/src/checks/mod.rs", 0),
            ("below a module", "crates/a/src/b.rs", "crates/a/src/b/checks.rs", 0),
            ("not declared there", "crates/a/src/b.rs", "crates/a/src/checks.rs", 1),
        ] {
            let tree = examples::files(&[(parent, declare), (child, body)]);
            assert_eq!(production_code_does_not_panic(&tree).len(), expected, "{name}");
        }
    }
}
