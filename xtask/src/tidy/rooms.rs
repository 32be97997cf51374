//! Rules about rooms: which crate may depend on which, and what the pure ones must not touch.
//!
//! The arrows of ARCHITECTURE.md, as a table. A pure crate takes values and returns values; a file, a socket, a clock
//! or a process in it would make its tests depend on the machine.
//!
//! Next: `documents`, which holds ARCHITECTURE.md to the same crates.

use super::Finding;
use super::code::{in_test_folder, test_module_files};
use super::rust_source::{closing, line_of, word_places};
use super::tree::{Package, Tree};

/// One crate, and the crates of this repository it may depend on.
struct Room {
    name: &'static str,
    may_use: &'static [&'static str],
    pure: bool,
}

/// Every crate. `trimtab-types` may be used by all of them and is not repeated.
const ROOMS: &[Room] = &[
    room("trimtab-types", &[], true),
    room("trimtab-wire", &[], true),
    room("trimtab-symbols", &[], true),
    room("trimtab-x86", &[], true),
    room("trimtab-snippet", &["trimtab-x86"], true),
    room("trimtab-plan", &["trimtab-symbols", "trimtab-x86", "trimtab-snippet"], true),
    room("trimtab-os", &[], false),
    room("trimtab-stub", &[], false),
    room("trimtab-session", SESSION, false),
    room("trimtab-mpi", &[], true),
    room("trimtab-track", &["trimtab-mpi", "trimtab-symbols", "trimtab-x86"], false),
    room("trimtab-neighbours", &["trimtab-sensors", "trimtab-track"], false),
    room("trimtab-sensors", &[], false),
    room("trimtab-trigger", &["trimtab-os", "trimtab-neighbours", "trimtab-track"], false),
    room("trimtab-watch", &["trimtab-symbols", "trimtab-os", "trimtab-mpi", "trimtab-track"], false),
    room("trimtab-window", &[], true),
    room("trimtab-progress", &[], true),
    room("trimtab-corun", &[], true),
    room("trimtab-grid", &[], true),
    room("trimtab-loggp", &[], true),
    room("trimtab-weather", &[], true),
    room("trimtab-history", &["trimtab-weather"], true),
    room("trimtab-routine", &["trimtab-weather"], true),
    room("trimtab-measure", MEASURE, false),
    room("trimtab-script", SCRIPT, false),
    room("trimtab-engine", ENGINE, false),
    room("trimtab-reduce", &[], true),
    room("trimtab-overlay", &["trimtab-reduce"], true),
    room("trimtab-link", LINK, false),
    room("trimtab-agent", AGENT, false),
    room("trimtab-store", &[], false),
    room("trimtab-audit", &[], false),
    room("trimtab-forecasts", FORECASTS, false),
    room("trimtab-site", &["trimtab-link", "trimtab-overlay"], false),
    room("trimtab-standing", STANDING, false),
    room("trimtab-controller", CONTROLLER, false),
    room("trimtab-report", &[], false),
    room("trimtab-pack", &[], false),
    room("trimtab-capi", &["trimtab-site"], false),
    room("trimtab", CLI, false),
    room("trimtab-specimens", &[], false),
    room("trimtab-torture", &["trimtab-os", "trimtab-stub", "trimtab-session"], false),
    room("trimtab-fuzz", FUZZ, false),
    room("trimtab-testbed", &[], false),
    room("trimtab-sim", &["trimtab-reduce", "trimtab-overlay"], true),
    room("xtask", &[SPECIMENS, "trimtab-testbed", "trimtab-window"], false),
];

/// One process needs everything that opens it.
const SESSION: &[&str] =
    &["trimtab-symbols", "trimtab-x86", "trimtab-snippet", "trimtab-plan", "trimtab-os", "trimtab-stub"];
/// One window needs everything below it, and neither remembers nor shows.
const MEASURE: &[&str] = &[
    "trimtab-symbols",
    "trimtab-os",
    "trimtab-stub",
    "trimtab-plan",
    "trimtab-session",
    "trimtab-mpi",
    "trimtab-track",
    "trimtab-neighbours",
    "trimtab-window",
];
/// A script needs what opens processes, the language, and what is known of MPI libraries.
const SCRIPT: &[&str] = &[
    "trimtab-symbols",
    "trimtab-x86",
    "trimtab-os",
    "trimtab-stub",
    "trimtab-snippet",
    "trimtab-session",
    "trimtab-mpi",
    "trimtab-measure",
];
/// Connections around a node; tests and the benchmark have the trees of the simulation.
const LINK: &[&str] = &["trimtab-os", "trimtab-wire", "trimtab-reduce", "trimtab-overlay", "trimtab-sim"];
/// The way to a job needs what finds it and what measures it; ways to other nodes, logs and stores are handed in.
const ENGINE: &[&str] = &[
    "trimtab-os",
    "trimtab-session",
    "trimtab-mpi",
    "trimtab-track",
    "trimtab-neighbours",
    "trimtab-sensors",
    "trimtab-trigger",
    "trimtab-watch",
    "trimtab-progress",
    "trimtab-corun",
    "trimtab-weather",
    "trimtab-history",
    "trimtab-routine",
    "trimtab-window",
    "trimtab-measure",
    "trimtab-script",
];
/// The command line is arguments, words and exit codes: 7 crates of ours, with the types, and no more. Its tests make nodes, and programs in C.
const CLI: &[&str] = &[
    "trimtab-standing",
    "trimtab-engine",
    "trimtab-controller",
    "trimtab-store",
    "trimtab-pack",
    "trimtab-report",
    "trimtab-testbed",
    "trimtab-capi",
];
/// Everything that reads bytes from outside, and everything that makes code.
const FUZZ: &[&str] = &[
    "trimtab-symbols",
    "trimtab-x86",
    "trimtab-snippet",
    "trimtab-os",
    "trimtab-stub",
    "trimtab-session",
    "trimtab-history",
    "trimtab-grid",
    "trimtab-weather",
    "trimtab-wire",
    "trimtab-reduce",
    "trimtab-overlay",
    "trimtab-measure",
    "trimtab-window",
    "trimtab-script",
    "trimtab-agent",
];
/// An agent measures what is on its node; the log of what it changes is handed in.
const AGENT: &[&str] = &[
    "trimtab-engine",
    "trimtab-link",
    "trimtab-measure",
    "trimtab-neighbours",
    "trimtab-os",
    "trimtab-overlay",
    "trimtab-reduce",
    "trimtab-script",
    "trimtab-session",
    "trimtab-track",
    "trimtab-window",
];
/// A site's standing agents start those of jobs, and hand them the log and the ways through the site.
const STANDING: &[&str] = &[
    "trimtab-agent",
    "trimtab-audit",
    "trimtab-engine",
    "trimtab-link",
    "trimtab-measure",
    "trimtab-overlay",
    "trimtab-reduce",
    "trimtab-site",
    "trimtab-track",
];
/// Answers need models of all kinds, and what a store keeps; nothing that opens a process.
const FORECASTS: &[&str] = &[
    "trimtab-corun",
    "trimtab-grid",
    "trimtab-history",
    "trimtab-loggp",
    "trimtab-progress",
    "trimtab-routine",
    "trimtab-sensors",
    "trimtab-store",
    "trimtab-weather",
];
/// The controller asks agents through the tree, hands out orders and keeps reports; it opens no process.
const CONTROLLER: &[&str] = &[
    "trimtab-audit",
    "trimtab-forecasts",
    "trimtab-history",
    "trimtab-link",
    "trimtab-overlay",
    "trimtab-reduce",
    "trimtab-site",
    "trimtab-store",
];
/// Used by everyone.
const TYPES: &str = "trimtab-types";
/// Any crate's tests may attach to a specimen.
const SPECIMENS: &str = "trimtab-specimens";

/// The folders of `crates`, from the lowest: a crate uses others of its own folder and of those before it.
const FOLDERS: &[&str] = &["base", "process", "models", "job", "cluster", "control", "ui"];

/// Names that a pure crate must not use, each with what to do instead.
const IMPURE: &[(&str, &str)] = &[
    ("std::fs", "take the bytes as an argument; the caller reads the file"),
    ("std::net", "return what to send; the caller owns the socket"),
    ("std::process", "return what to run; the caller starts it"),
    ("std::time::SystemTime", "take the time as an argument; the caller reads the clock"),
    ("std::time::Instant", "take the time as an argument; the caller reads the clock"),
];

/// Each crate depends only on what its row in [`ROOMS`] allows.
pub fn edges_are_allowed(tree: &Tree) -> Vec<Finding> {
    tree.packages.iter().flat_map(edges_of).collect()
}

/// No crate depends on one of a folder above its own, whatever [`ROOMS`] allows.
pub fn arrows_go_down(tree: &Tree) -> Vec<Finding> {
    let height = |name: &str| tree.packages.iter().find(|package| package.name == name).and_then(height_of);
    let mut findings = Vec::new();
    for package in &tree.packages {
        let Some(own) = height_of(package) else { continue };
        let above = package.dependencies.iter().filter(|to| to.local && height(&to.name).is_some_and(|it| it > own));
        findings.extend(above.map(|to| {
            let message = format!(
                "`{}` of {} must not use `{}` of {}, which is above it: define a trait here and have it handed in",
                package.name,
                FOLDERS[own],
                to.name,
                height(&to.name).map_or("?", |it| FOLDERS[it])
            );
            Finding::new(&format!("{}/Cargo.toml", package.folder), 0, message)
        }));
    }
    findings
}

/// The place of a package's folder in [`FOLDERS`]; `None`: it is in none of them.
fn height_of(package: &Package) -> Option<usize> {
    let folder = package.folder.strip_prefix("crates/")?.split('/').next()?;
    FOLDERS.iter().position(|known| *known == folder)
}

/// Each crate of a row in [`ROOMS`] is used: a permission that nobody needs would hide an arrow that comes later.
pub fn permissions_are_used(tree: &Tree) -> Vec<Finding> {
    tree.packages.iter().flat_map(unused_of).collect()
}

/// The `src` of pure crates names nothing of [`IMPURE`], tests aside.
pub fn pure_rooms_touch_nothing(tree: &Tree) -> Vec<Finding> {
    let test_files = test_module_files(tree);
    let mut findings = Vec::new();
    for package in tree.packages.iter().filter(|package| find_room(&package.name).is_some_and(|room| room.pure)) {
        let source_folder = format!("{}/src/", package.folder);
        for (path, source) in tree.rust_files() {
            if path.starts_with(&source_folder) && !in_test_folder(path) && !test_files.contains(path) {
                findings.extend(impure_uses(path, &package.name, &source.production));
            }
        }
    }
    findings
}

const fn room(name: &'static str, may_use: &'static [&'static str], pure: bool) -> Room {
    Room { name, may_use, pure }
}

fn find_room(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

fn edges_of(package: &Package) -> Vec<Finding> {
    let manifest = format!("{}/Cargo.toml", package.folder);
    let Some(room) = find_room(&package.name) else {
        let message =
            format!("crate `{}` has no row in ROOMS of xtask/src/tidy/rooms.rs: say whom it may use", package.name);
        return vec![Finding::new(&manifest, 0, message)];
    };
    let local = package.dependencies.iter().filter(|dependency| dependency.local);
    let refused = local.filter(|dependency| {
        let to = dependency.name.as_str();
        let always = to == TYPES || (dependency.dev && to == SPECIMENS) || to == package.name;
        !always && !room.may_use.contains(&to)
    });
    refused.map(|dependency| Finding::new(&manifest, 0, refusal(room, &dependency.name))).collect()
}

fn unused_of(package: &Package) -> Vec<Finding> {
    let Some(room) = find_room(&package.name) else { return Vec::new() };
    let is_used = |to: &str| package.dependencies.iter().any(|dependency| dependency.local && dependency.name == to);
    let unused = room.may_use.iter().filter(|to| !is_used(to));
    let message = |to: &&str| format!("`{}` may use `{to}` and does not: take it out of ROOMS in rooms.rs", room.name);
    let manifest = format!("{}/Cargo.toml", package.folder);
    unused.map(|to| Finding::new(&manifest, 0, message(to))).collect()
}

fn refusal(room: &Room, to: &str) -> String {
    let allowed: Vec<&str> = std::iter::once(TYPES).chain(room.may_use.iter().copied()).collect();
    format!(
        "`{}` must not depend on `{to}` (allowed: {}): pass a value of trimtab-types instead, or move the code",
        room.name,
        allowed.join(", ")
    )
}

fn impure_uses(path: &str, crate_name: &str, production: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (place, used) in std_paths(production) {
        let banned = IMPURE.iter().find(|(banned, _)| used == *banned || used.starts_with(&format!("{banned}::")));
        if let Some((banned, instead)) = banned {
            let message = format!("`{crate_name}` is pure, no `{banned}`: {instead}");
            findings.push(Finding::new(path, line_of(production, place), message));
        }
    }
    findings
}

/// Every path that starts with `std::`, with its offset; `std::{a, b::{c}}` yields `std::a` and `std::b::c`.
fn std_paths(code: &str) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    for place in word_places(code, "std::") {
        let tree_end = use_tree_end(code, place);
        expand(&code[place..tree_end], "", place, &mut paths);
    }
    paths.into_iter().map(|used| (used.place, used.path)).collect()
}

/// One path of a use tree.
pub(super) struct UsedPath {
    place: usize,
    pub(super) path: String,
    /// The name behind `as`.
    pub(super) renamed: Option<String>,
}

/// The path that begins at `place`, or all paths of the use tree there.
pub(super) fn paths_from(code: &str, place: usize) -> Vec<UsedPath> {
    paths_of(&code[place..use_tree_end(code, place)])
}

/// All paths of a use tree.
pub(super) fn paths_of(tree: &str) -> Vec<UsedPath> {
    let mut paths = Vec::new();
    expand(tree, "", 0, &mut paths);
    paths
}

/// The end of the use tree or path that starts at `place`.
pub(super) fn use_tree_end(code: &str, place: usize) -> usize {
    let path_end = |from: usize| {
        code[from..].find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).map_or(code.len(), |len| from + len)
    };
    let end = path_end(place);
    if code[place..end].ends_with("::") && code[end..].starts_with('{') { closing(code, end) } else { end }
}

fn expand(tree: &str, prefix: &str, place: usize, paths: &mut Vec<UsedPath>) {
    let Some(open) = tree.find('{') else {
        let mut words = tree.split_whitespace();
        let name = words.next().unwrap_or_default();
        let renamed = words.next().filter(|word| *word == "as").and_then(|_| words.next());
        let path = format!("{prefix}{name}").trim_end_matches("::self").to_string();
        paths.push(UsedPath { place, path, renamed: renamed.map(str::to_string) });
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let inside = &tree[open + 1..closing(tree, open) - 1];
    let mut start = 0;
    for end in branch_ends(inside) {
        let branch = &inside[start..end];
        let margin = branch.len() - branch.trim_start().len();
        if !branch.trim().is_empty() {
            expand(branch.trim(), &prefix, place + open + 1 + start + margin, paths);
        }
        start = end + 1;
    }
}

/// The offsets of the commas outside of braces, and the end.
fn branch_ends(inside: &str) -> Vec<usize> {
    let mut depth = 0_i32;
    let mut ends = Vec::new();
    for (offset, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => ends.push(offset),
            _ => {}
        }
    }
    ends.push(inside.len());
    ends
}

#[cfg(test)]
mod tests {
    use super::super::tree::examples;
    use super::*;

    #[test]
    fn edges_outside_the_table_are_found() {
        for (name, from, to, expected) in [
            ("types for all", "trimtab-x86", "trimtab-types", 0),
            ("session to os", "trimtab-session", "trimtab-os", 0),
            ("cli to store", "trimtab", "trimtab-store", 0),
            ("cli to what opens processes", "trimtab", "trimtab-session", 1),
            ("measure to session", "trimtab-measure", "trimtab-session", 0),
            ("measure to store", "trimtab-measure", "trimtab-store", 1),
            ("window to mpi", "trimtab-window", "trimtab-mpi", 1),
            ("pure to os", "trimtab-plan", "trimtab-os", 1),
            ("symbols to store", "trimtab-symbols", "trimtab-store", 1),
            ("downwards", "trimtab-types", "trimtab-mpi", 1),
            ("test of a pure crate to os", "trimtab-x86", "dev:trimtab-os", 1),
            ("test to specimens", "trimtab-os", "dev:trimtab-specimens", 0),
            ("specimens shipped", "trimtab-os", "trimtab-specimens", 1),
            ("from outside", "trimtab-x86", "iced-x86", 0),
            ("new crate", "trimtab-news", "trimtab-types", 1),
        ] {
            let packages = vec![examples::package(from, "crates/a", &[to])];
            let findings = edges_are_allowed(&Tree { files: Vec::new(), packages });
            assert_eq!(findings.len(), expected, "{name}: {findings:?}");
        }
    }

    #[test]
    fn arrows_between_folders_go_down() {
        for (name, from, to, expected) in [
            ("down", "crates/cluster/agent", "crates/job/engine", 0),
            ("beside", "crates/cluster/agent", "crates/cluster/link", 0),
            ("up", "crates/cluster/agent", "crates/control/site", 1),
            ("up from the lowest", "crates/base/types", "crates/process/os", 1),
            ("a test's", "crates/cluster/agent", "testing/specimens", 0),
            ("of a test", "testing/fuzz", "crates/ui/cli", 0),
        ] {
            for dependency in ["trimtab-b", "dev:trimtab-b"] {
                let (own, other) = ("trimtab-a", "trimtab-b");
                let packages = vec![examples::package(own, from, &[dependency]), examples::package(other, to, &[])];
                let findings = arrows_go_down(&Tree { files: Vec::new(), packages });
                assert_eq!(findings.len(), expected, "{name}, {dependency}: {findings:?}");
            }
        }
    }

    #[test]
    fn every_folder_of_crates_has_its_height() {
        let root = crate::shell::root().expect("cargo names the manifest");
        for package in Tree::read(&root).expect("the workspace is readable").packages {
            let is_one = package.folder.starts_with("crates/");
            assert_eq!(height_of(&package).is_some(), is_one, "{}", package.folder);
        }
    }

    #[test]
    fn permissions_that_nobody_needs_are_found() {
        let of = |dependencies: &[&str]| {
            let packages = vec![examples::package("trimtab-site", "crates/a", dependencies)];
            permissions_are_used(&Tree { files: Vec::new(), packages }).len()
        };
        assert_eq!(of(&["trimtab-link", "trimtab-overlay", "trimtab-types"]), 0);
        assert_eq!(of(&["trimtab-link", "dev:trimtab-overlay"]), 0, "tests need it");
        assert_eq!((of(&["trimtab-link"]), of(&[])), (1, 2));
    }

    #[test]
    fn every_row_names_crates_of_the_table() {
        for room in ROOMS {
            for to in room.may_use {
                let target = find_room(to).unwrap_or_else(|| panic!("{} may use {to}, which has no row", room.name));
                assert!(!room.pure || target.pure, "{} is pure and may use {to}, which is not", room.name);
            }
        }
    }

    #[test]
    fn impure_uses_are_found() {
        for (name, text, expected) in [
            ("path", "fn f() {\n std::fs::read(p)\n}", vec![2]),
            ("use", "use std::net::TcpStream;", vec![1]),
            ("group", "use std::{\n    fmt,\n    fs,\n};", vec![3]),
            ("nested group", "use std::{fmt, time::{Duration, Instant}};", vec![1]),
            ("group below", "use std::time::{Duration, SystemTime};", vec![1]),
            ("self", "use std::process::{self, Command};", vec![1, 1]),
            ("renamed", "use std::{fs as files};", vec![1]),
            ("allowed", "use std::{fmt, time::Duration, collections::BTreeMap};\nuse std::io::Read;", vec![]),
            ("name that starts alike", "use std::fsx::Y;", vec![]),
            ("comment", "// std::fs", vec![]),
            ("test", "#[cfg(test)]\nmod tests { use std::fs; }", vec![]),
        ] {
            let mut tree = examples::files(&[("crates/process/x86/src/a.rs", text)]);
            tree.packages = vec![examples::package("trimtab-x86", "crates/process/x86", &[])];
            let lines: Vec<usize> = pure_rooms_touch_nothing(&tree).iter().map(|finding| finding.line).collect();
            assert_eq!(lines, expected, "{name}");
        }
    }

    #[test]
    fn rooms_that_are_not_pure_may_read_files() {
        let mut tree = examples::files(&[("crates/process/os/src/a.rs", "use std::fs;")]);
        tree.packages = vec![examples::package("trimtab-os", "crates/process/os", &[])];
        assert!(pure_rooms_touch_nothing(&tree).is_empty());
    }
}
