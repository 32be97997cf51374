//! Rules about prose: ARCHITECTURE.md names every crate and every dependency, and links lead somewhere.
//!
//! A map that lacks a room is worse than no map, because people trust it.
//!
//! Next: `rooms` for the arrows between the crates.

use super::Finding;
use super::rust_source::line_of;
use super::tree::Tree;
use std::collections::BTreeSet;

const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// The heading above the table of crates from outside.
const DEPENDENCIES_HEADING: &str = "## Dependencies";

/// Every crate's folder stands in ARCHITECTURE.md in backticks.
pub fn architecture_names_every_crate(tree: &Tree) -> Vec<Finding> {
    let Some(architecture) = tree.file(ARCHITECTURE) else {
        return vec![Finding::new(ARCHITECTURE, 0, "the map is missing: write it")];
    };
    let unnamed = tree.packages.iter().filter(|package| !architecture.text.contains(&format!("`{}`", package.folder)));
    let message = |folder: &str| {
        format!("crate `{folder}` is not named: add a paragraph with its invariants, stated as absences")
    };
    unnamed.map(|package| Finding::new(ARCHITECTURE, 0, message(&package.folder))).collect()
}

/// The table under [`DEPENDENCIES_HEADING`] lists exactly the crates from outside that some manifest names.
pub fn dependencies_are_explained(tree: &Tree) -> Vec<Finding> {
    let text = tree.file(ARCHITECTURE).map_or("", |file| file.text.as_str());
    let listed = listed_dependencies(text);
    let listed_names: BTreeSet<&str> = listed.iter().map(|(_, name)| name.as_str()).collect();
    let used: BTreeSet<(&str, &str)> = tree
        .packages
        .iter()
        .flat_map(|package| package.dependencies.iter().map(|dependency| (dependency, package.name.as_str())))
        .filter(|(dependency, _)| !dependency.local)
        .map(|(dependency, user)| (dependency.name.as_str(), user))
        .collect();
    let mut findings = Vec::new();
    for (name, user) in used.iter().filter(|(name, _)| !listed_names.contains(name)) {
        let message = format!(
            "`{name}`, used by `{user}`, has no row in the table under \"{DEPENDENCIES_HEADING}\": say what for, or use std"
        );
        findings.push(Finding::new(ARCHITECTURE, 0, message));
    }
    for (line, name) in listed.iter().filter(|(_, name)| !used.iter().any(|(used, _)| used == name)) {
        findings.push(Finding::new(
            ARCHITECTURE,
            *line,
            format!("no crate depends on `{name}` any more: remove its row"),
        ));
    }
    findings
}

/// Links in Markdown to files of the repository lead to one.
pub fn links_resolve(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let prose = without_code(&file.text);
        for (place, target) in links(&prose) {
            let full = resolve(&file.path, &target);
            if !full.as_ref().is_some_and(|full| tree.holds(full)) {
                let message = format!("the link to `{target}` leads nowhere: correct it or add the file");
                findings.push(Finding::new(&file.path, line_of(&prose, place), message));
            }
        }
    }
    findings
}

/// The names in backticks in the first column of the dependency table, with their lines.
fn listed_dependencies(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| line.trim() != DEPENDENCIES_HEADING).skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with("## "));
    let rows = section.filter_map(|(index, line)| {
        let cell = line.trim().strip_prefix('|')?.split('|').next()?.trim();
        let names = cell.split('`').skip(1).step_by(2).map(str::to_string);
        Some(names.map(move |name| (index + 1, name)).collect::<Vec<_>>())
    });
    rows.flatten().collect()
}

/// The text with fenced blocks and inline code blanked, offsets kept.
fn without_code(text: &str) -> String {
    let mut fenced = false;
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        if fence || fenced {
            kept.push_str(&blank(line));
        } else {
            let parts = line.split('`').enumerate();
            kept.push_str(
                &parts
                    .map(|(i, part)| if i % 2 == 1 { blank(part) } else { part.into() })
                    .collect::<Vec<_>>()
                    .join("`"),
            );
        }
        fenced ^= fence;
    }
    kept
}

fn blank(part: &str) -> String {
    part.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// The targets of `[text](target)` that mean a file, with their offsets.
fn links(prose: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (place, _) in prose.match_indices("](") {
        let rest = &prose[place + 2..];
        let target = rest.split([')', ' ', '\n']).next().unwrap_or_default();
        let file = target.split('#').next().unwrap_or_default();
        if !file.is_empty() && !file.contains(':') {
            found.push((place, file.to_string()));
        }
    }
    found
}

/// `target` as seen from the repository's root; `None` if it leads out of it.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { from.split('/').collect() };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tree::examples;
    use super::*;

    #[test]
    fn crates_missing_from_the_map_are_found() {
        for (name, text, expected) in [
            ("named", "### `crates/job/mpi`", 0),
            ("without backticks", "crates/job/mpi", 1),
            ("a longer name", "`crates/job/mpi-more`", 1),
        ] {
            let mut tree = examples::files(&[(ARCHITECTURE, text)]);
            tree.packages = vec![examples::package("trimtab-mpi", "crates/job/mpi", &[])];
            assert_eq!(architecture_names_every_crate(&tree).len(), expected, "{name}");
        }
        assert_eq!(architecture_names_every_crate(&Tree::default()).len(), 1, "no map at all");
    }

    #[test]
    fn the_dependency_table_is_exact() {
        let table = "## Dependencies\n\n| crate | for |\n|---|---|\n| `serde` | x |\n| `a`, `b` | y |\n\n## Later\n| `c` | z |\n";
        for (name, used, expected) in [
            ("exact", &["serde", "a", "b"][..], vec![]),
            ("for tests too", &["serde", "a", "dev:b"][..], vec![]),
            ("unexplained", &["serde", "a", "b", "libc"][..], vec![0]),
            ("explained elsewhere only", &["serde", "a", "b", "c"][..], vec![0]),
            ("no longer used", &["serde", "a"][..], vec![6]),
            ("our own", &["serde", "a", "b", "trimtab-types"][..], vec![]),
        ] {
            let mut tree = examples::files(&[(ARCHITECTURE, table)]);
            tree.packages = vec![examples::package("x", "crates/x", used)];
            let lines: Vec<usize> = dependencies_are_explained(&tree).iter().map(|finding| finding.line).collect();
            assert_eq!(lines, expected, "{name}");
        }
    }

    #[test]
    fn dead_links_are_found() {
        for (name, text, expected) in [
            ("file beside", "see [a](testing.md)", vec![]),
            ("with anchor", "[a](testing.md#skips)", vec![]),
            ("up", "[a](../README.md)", vec![]),
            ("folder", "[a](../docs/)", vec![]),
            ("from the root", "[a](/README.md)", vec![]),
            ("dead", "\nsee [a](none.md)", vec![2]),
            ("out of the repository", "[a](../../x.md)", vec![1]),
            ("web", "[a](https://example.org/x)", vec![]),
            ("anchor", "[a](#here)", vec![]),
            ("inline code", "`[a](none.md)`", vec![]),
            ("fenced", "```\n[a](none.md)\n```\n[b](none.md)", vec![4]),
        ] {
            let tree = examples::files(&[("docs/a.md", text), ("docs/testing.md", ""), ("README.md", "")]);
            let lines: Vec<usize> = links_resolve(&tree).iter().map(|finding| finding.line).collect();
            assert_eq!(lines, expected, "{name}");
        }
    }
}
