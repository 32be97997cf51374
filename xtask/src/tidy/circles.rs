//! Circles of modules inside a crate: modules that use each other, so that none of them can be read or changed alone.
//!
//! A module is a file of `src`. An arrow goes from a file to the one that defines a name it uses, through any number of
//! `use` that only hand the name on; a `use` for others alone (`pub use`, and the name is not used beside it) is none.
//! A circle is a strongly connected set of two or more files. Their number may only fall.
//!
//! Next: [`super::rooms`] for arrows between crates.

use super::Finding;
use super::rooms::{UsedPath, paths_from, paths_of, use_tree_end};
use super::rust_source::{RustSource, word_places};
use super::tree::{Package, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// Circles that are left. Lower it when one is opened; it never rises.
const CIRCLES_MAX: usize = 6;
/// `use` of a name that is itself used from elsewhere, and so on: more steps than any code takes.
const HOPS_MAX: usize = 8;

/// As many circles as [`CIRCLES_MAX`] says, neither more nor fewer.
pub fn circles_only_become_fewer(tree: &Tree) -> Vec<Finding> {
    let circles: Vec<Circle> =
        tree.packages.iter().flat_map(|package| CrateModules::of(tree, package).circles()).collect();
    judge(&circles, CIRCLES_MAX)
}

fn judge(circles: &[Circle], allowed: usize) -> Vec<Finding> {
    if circles.len() < allowed {
        let message = format!("{} circles of modules are left: lower CIRCLES_MAX to that", circles.len());
        return vec![Finding::new("xtask/src/tidy/circles.rs", 0, message)];
    }
    let found = if circles.len() > allowed { circles } else { &[] };
    let many = format!("{} circles of modules, {allowed} are left to be opened", circles.len());
    let message = |circle: &Circle| {
        format!("these use each other: {} ({many}); move what they share below both", circle.arrows.join(", "))
    };
    found.iter().map(|circle| Finding::new(&circle.files[0], 0, message(circle))).collect()
}

/// Files that use each other.
#[derive(Debug)]
struct Circle {
    /// Two or more, in order of path.
    files: Vec<String>,
    /// `a -> b: names` for each arrow among them.
    arrows: Vec<String>,
}

/// The modules of one crate.
struct CrateModules<'a> {
    modules: BTreeMap<Vec<String>, Module<'a>>,
}

/// One file of a crate.
struct Module<'a> {
    path: &'a str,
    code: &'a str,
    /// The names that the file's `use` bring.
    imports: BTreeMap<String, Import>,
}

/// One name that a `use` brings.
struct Import {
    /// The whole path behind `use`.
    path: Vec<String>,
    /// True if it is handed on and not used in the file itself.
    only_for_others: bool,
}

impl<'a> CrateModules<'a> {
    fn of(tree: &'a Tree, package: &Package) -> CrateModules<'a> {
        let folder = format!("{}/src/", package.folder);
        let mut modules = BTreeMap::new();
        for file in &tree.files {
            let (Some(inside), Some(rust)) = (file.path.strip_prefix(&folder), &file.rust) else { continue };
            if let Some(name) = module_path(inside) {
                modules.entry(name).or_insert_with(|| Module::new(&file.path, rust));
            }
        }
        CrateModules { modules }
    }

    fn circles(&self) -> Vec<Circle> {
        let arrows: BTreeMap<&Vec<String>, BTreeMap<Vec<String>, BTreeSet<String>>> =
            self.modules.iter().map(|(at, module)| (at, self.arrows_of(at, module))).collect();
        let reached: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> =
            arrows.keys().map(|at| (*at, reached_from(at, &arrows))).collect();
        let mut told = BTreeSet::new();
        let mut circles = vec![];
        for (at, far) in &reached {
            let is_mutual = |other: &&Vec<String>| reached.get(other).is_some_and(|back| back.contains(*at));
            let members: Vec<&Vec<String>> = far.iter().filter(is_mutual).collect();
            if members.len() > 1 && members.iter().all(|member| told.insert((*member).clone())) {
                circles.push(self.circle(&members, &arrows));
            }
        }
        circles
    }

    fn circle(
        &self,
        members: &[&Vec<String>],
        arrows: &BTreeMap<&Vec<String>, BTreeMap<Vec<String>, BTreeSet<String>>>,
    ) -> Circle {
        let name = |at: &Vec<String>| at.last().map_or("the crate's root", String::as_str).to_string();
        let mut told = vec![];
        for from in members {
            for to in members.iter().filter(|to| *to != from) {
                if let Some(names) = arrows[*from].get(*to) {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    told.push(format!("{} -> {}: {}", name(from), name(to), names.join(" ")));
                }
            }
        }
        let files = members.iter().map(|at| self.modules[*at].path.to_string()).collect();
        Circle { files, arrows: told }
    }

    /// The modules that one uses, with the names it takes from each.
    fn arrows_of(&self, at: &[String], module: &Module<'_>) -> BTreeMap<Vec<String>, BTreeSet<String>> {
        let mut arrows: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
        for path in module.used_paths(self.children(at)) {
            let mut imports = module.imports.values().filter(|import| import.path == path).peekable();
            if imports.peek().is_some() && imports.all(|import| import.only_for_others) {
                continue;
            }
            if let Some((to, name)) = self.defines(at, &path, HOPS_MAX)
                && to != at
            {
                arrows.entry(to).or_default().insert(name);
            }
        }
        arrows
    }

    fn children(&self, at: &[String]) -> Vec<String> {
        let is_child = |name: &&Vec<String>| name.len() == at.len() + 1 && name.starts_with(at);
        self.modules.keys().filter(is_child).filter_map(|name| name.last().cloned()).collect()
    }

    /// The module that defines what `path` means in the module at `at`, and the name there; `None` for other crates.
    fn defines(&self, at: &[String], path: &[String], hops: usize) -> Option<(Vec<String>, String)> {
        let mut here = at.to_vec();
        for (index, word) in path.iter().enumerate() {
            match word.as_str() {
                "crate" => here.clear(),
                "self" => {}
                "super" => {
                    here.pop()?;
                }
                _ => {
                    let inner: Vec<String> = here.iter().chain([word]).cloned().collect();
                    if self.modules.contains_key(&inner) {
                        here = inner;
                        continue;
                    }
                    // The path begins with another crate's name.
                    if index == 0 {
                        return None;
                    }
                    return self.named(here, word, hops);
                }
            }
        }
        // A module by its name alone is used by the paths that begin with that name.
        None
    }

    /// Follows a name of a module through the `use` that brings it.
    fn named(&self, at: Vec<String>, name: &str, hops: usize) -> Option<(Vec<String>, String)> {
        let module = self.modules.get(&at)?;
        // A module whose file lies outside of `src`, by `#[path]`.
        if module.declares_module(name) {
            return None;
        }
        let import = module.imports.get(name);
        match import {
            Some(import) if hops > 0 => self.defines(&at, &import.path, hops - 1),
            _ => Some((at, name.to_string())),
        }
    }
}

impl<'a> Module<'a> {
    fn new(path: &'a str, rust: &'a RustSource) -> Self {
        Module { path, code: &rust.production, imports: imports(&rust.production) }
    }

    fn declares_module(&self, name: &str) -> bool {
        word_places(self.code, "mod").any(|place| {
            let rest = self.code[place + "mod".len()..].trim_start();
            rest.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(';'))
        })
    }

    /// All paths that begin inside the crate, and those that begin with a module that a `use` has brought.
    fn used_paths(&self, children: Vec<String>) -> Vec<Vec<String>> {
        let mut paths = vec![];
        let fixed = ["crate", "super", "self"].map(str::to_string);
        for head in fixed.iter().chain(&children) {
            paths.extend(paths_at(self.code, head));
        }
        // A function may be named as the module that it is in.
        for (name, import) in self.imports.iter().filter(|(name, _)| !children.contains(name)) {
            for path in paths_at(self.code, name) {
                paths.push(import.path.iter().chain(&path[1..]).cloned().collect());
            }
        }
        paths
    }
}

/// All paths of the code that begin with `head::`.
fn paths_at(code: &str, head: &str) -> Vec<Vec<String>> {
    let start = format!("{head}::");
    let begins = |place: &usize| !code[..*place].ends_with("::");
    let places = word_places(code, &start).filter(begins);
    places.flat_map(|place| paths_from(code, place)).map(|used| words_of(&used.path)).collect()
}

fn words_of(path: &str) -> Vec<String> {
    path.split("::").map(str::to_string).collect()
}

/// `a/b.rs` and `a/b/mod.rs` are `a::b`; `None` for further programs of the crate.
fn module_path(inside: &str) -> Option<Vec<String>> {
    let words: Vec<String> = inside.strip_suffix(".rs")?.split('/').map(str::to_string).collect();
    let (last, folders) = words.split_last()?;
    match last.as_str() {
        "lib" | "main" if folders.is_empty() => Some(vec![]),
        "mod" => Some(folders.to_vec()),
        _ if folders.first().is_some_and(|first| first == "bin") => None,
        _ => Some(words),
    }
}

fn imports(code: &str) -> BTreeMap<String, Import> {
    let mut imports = BTreeMap::new();
    for place in word_places(code, "use") {
        let from = place + "use".len();
        let Some(len) = code[from..].find(';') else { continue };
        let statement = &code[from..from + len];
        let start = from + statement.len() - statement.trim_start().len();
        let end = use_tree_end(code, start).max(from + len);
        let line = code[..place].rfind(['\n', ';', '}']).map_or(0, |before| before + 1);
        let is_public = code[line..place].trim_start().starts_with("pub");
        for (name, path) in names_of(&code[start..end]) {
            let is_declared = |at: usize| code[..at].trim_end().ends_with("mod");
            let elsewhere = word_places(code, &name).any(|at| !(start..end).contains(&at) && !is_declared(at));
            imports.insert(name, Import { path, only_for_others: is_public && !elsewhere });
        }
    }
    imports
}

/// The names that a use tree brings, each with its path.
fn names_of(tree: &str) -> Vec<(String, Vec<String>)> {
    let named = |used: UsedPath| {
        let path = words_of(&used.path);
        Some((used.renamed.or_else(|| path.last().cloned())?, path))
    };
    paths_of(tree).into_iter().filter_map(named).collect()
}

fn reached_from(
    at: &[String],
    arrows: &BTreeMap<&Vec<String>, BTreeMap<Vec<String>, BTreeSet<String>>>,
) -> BTreeSet<Vec<String>> {
    let mut reached = BTreeSet::new();
    let mut open = vec![at.to_vec()];
    while let Some(next) = open.pop() {
        for to in arrows.get(&next).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::tree::examples;
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Circle> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(name, text)| (format!("crates/a/src/{name}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let mut tree = examples::files(&files);
        tree.packages = vec![examples::package("trimtab-a", "crates/a", &[])];
        CrateModules::of(&tree, &tree.packages[0]).circles()
    }

    /// The files of all circles, in order.
    fn files_in_circles(files: &[(&str, &str)]) -> Vec<String> {
        let found = circles(files).into_iter().flat_map(|circle| circle.files);
        let mut found: Vec<String> =
            found.filter_map(|path| Some(path.strip_prefix("crates/a/src/")?.into())).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn circles_are_found() {
        let none: &[&str] = &[];
        for (name, files, expected) in [
            ("one way", vec![("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")], none),
            ("two files", vec![("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")], &["a.rs", "b.rs"]),
            (
                "by a path",
                vec![("a.rs", "fn f() { crate::b::g() }"), ("b.rs", "fn g() { crate::a::f() }")],
                &["a.rs", "b.rs"],
            ),
            (
                "child and parent",
                vec![("a.rs", "mod b;\nfn f() { b::g() }"), ("a/b.rs", "use super::f;")],
                &["a.rs", "a/b.rs"],
            ),
            (
                "through a module that hands names on",
                vec![
                    ("lib.rs", "mod a;\nmod b;\npub use a::A;"),
                    ("a.rs", "use crate::b::B;"),
                    ("b.rs", "use crate::A;"),
                ],
                &["a.rs", "b.rs"],
            ),
            (
                "handing on alone",
                vec![("lib.rs", "mod a;\npub use a::A;\npub struct B;"), ("a.rs", "use crate::B;")],
                none,
            ),
            (
                "handed on and used",
                vec![("lib.rs", "mod a;\npub use a::A;\npub struct B(A);"), ("a.rs", "use crate::B;")],
                &["a.rs", "lib.rs"],
            ),
            (
                "only in tests",
                vec![("a.rs", "use crate::b::B;"), ("b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }")],
                none,
            ),
            ("another crate", vec![("a.rs", "use b::B;\nuse std::c;"), ("b.rs", "use crate::a::A;")], none),
            (
                "a module by its name",
                vec![("a.rs", "use crate::b;\nfn f() { b::g() }"), ("b.rs", "use crate::a::f;")],
                &["a.rs", "b.rs"],
            ),
            (
                "a file elsewhere",
                vec![
                    ("lib.rs", "#[path = \"x\"]\nmod c;\nuse a::A;"),
                    ("a.rs", "use crate::c;\nfn f() { c::g(); crate::c::h() }"),
                ],
                none,
            ),
        ] {
            assert_eq!(files_in_circles(&files), expected, "{name}");
        }
    }

    #[test]
    fn renamed_imports_are_followed() {
        for (name, files, expected) in [
            (
                "beside another of its first name",
                vec![("a.rs", "use crate::d;\nuse b::d as far;\nfn f() { d::g() }"), ("d.rs", "use crate::a::f;")],
                &["a.rs", "d.rs"],
            ),
            (
                "handed on under another name",
                vec![
                    ("lib.rs", "mod a;\nmod b;\npub use a::A as Other;\nuse b::B as Far;\nstruct C(Far);"),
                    ("a.rs", "use crate::b::B;"),
                    ("b.rs", "use crate::Other;"),
                ],
                &["a.rs", "b.rs"],
            ),
            (
                "used under another name",
                vec![("a.rs", "use crate::b as far;\nfn f() { far::g() }"), ("b.rs", "use crate::a::f;")],
                &["a.rs", "b.rs"],
            ),
        ] {
            assert_eq!(files_in_circles(&files), expected, "{name}");
        }
    }

    #[test]
    fn their_number_only_falls() {
        let circle = || Circle { files: vec!["a".into(), "b".into()], arrows: vec!["a -> b: B".into()] };
        let three: Vec<Circle> = (0..3).map(|_| circle()).collect();
        assert_eq!(judge(&three, 3), vec![]);
        assert_eq!(judge(&three, 2).len(), 3, "one more than before");
        let message = &judge(&three, 4)[0].message;
        assert!(message.contains("lower CIRCLES_MAX"), "{message}");
    }
}
