//! The house rules, as checks: a rule that nothing checks is a wish.
//!
//! Each rule is a pure function from a [`Tree`] to findings, so that its tests are a few lines of bad example. The
//! rules run here as `cargo xtask tidy` and as a test of this crate, hence in every `cargo test`.
//!
//! Next: `code` for rules about Rust text, `rooms` for who may use whom, `documents` and `repository` for the rest.

mod circles;
mod code;
mod documents;
mod finding;
mod repository;
mod rooms;
mod rust_source;
mod tree;

use crate::{Outcome, shell};
use anyhow::{Result, bail};
use finding::Finding;
use tree::Tree;

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[Rule] = &[
    code::files_open_with_their_purpose,
    code::functions_are_short,
    code::unsafe_stays_in_its_rooms,
    code::unfinished_work_is_absent,
    code::comments_begin_with_a_subject,
    code::types_have_one_name,
    code::production_code_does_not_panic,
    code::libraries_do_not_print,
    rooms::edges_are_allowed,
    rooms::arrows_go_down,
    rooms::permissions_are_used,
    rooms::pure_rooms_touch_nothing,
    circles::circles_only_become_fewer,
    documents::architecture_names_every_crate,
    documents::dependencies_are_explained,
    documents::links_resolve,
    repository::local_words_are_absent,
    repository::files_are_text,
    repository::manifests_are_complete,
    repository::examples_are_tested,
];

/// `cargo xtask tidy`: prints every finding.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    if let Some(argument) = arguments.first() {
        bail!("tidy takes no argument, got `{argument}`");
    }
    let tree = Tree::read(&shell::root()?)?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} rules, {} findings", tree.files.len(), RULES.len(), findings.len());
    Ok(if findings.is_empty() { Outcome::Done } else { Outcome::Failed })
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::tree::{TreeFile, examples};
    use super::*;

    #[test]
    fn every_rule_is_run() {
        let machine_path = ["/wo", "rk/x"].concat();
        let long = format!("fn f() {{{}}}", "\n".repeat(80));
        let text = format!(
            "use std::fs;\nuse crate::Ab as Bc;\nfn g() {{ unsafe {{ h().unwrap(); println!() }} }} // FIXME {machine_path}\n// What.\n{long}"
        );
        let mut tree = examples::files(&[("crates/process/x86/src/lib.rs", &text), ("a.md", "[x](gone.md)")]);
        tree.files.push(TreeFile::new("a.o", b"\0"));
        tree.packages = vec![
            examples::package("trimtab-x86", "crates/process/x86", &["trimtab-os", "libc"]),
            examples::package("trimtab-site", "crates/control/site", &["trimtab-link"]),
            examples::package("trimtab-os", "crates/process/os", &["trimtab-types", "trimtab-site"]),
        ];
        let findings = check(&tree);
        let words = [
            "start the file with",
            "81 lines",
            "no `unsafe`",
            "no `FIXME`",
            "no sentence of a comment begins with",
            "no `Ab as Bc`",
            "no `unwrap()`",
            "in a library",
            "must not depend",
            "which is above it",
            "and does not: take it out",
            "is pure",
            "circles of modules",
            "the map is missing",
            "`libc`, used by",
            "leads nowhere",
            "one machine",
            "binary file",
            "add `[lints]`",
            "add `doctest = false`",
        ];
        assert_eq!(words.len(), RULES.len(), "each rule has a word here");
        for word in words {
            assert!(
                findings.iter().any(|finding| finding.message.contains(word)),
                "no rule says {word:?}: {findings:#?}"
            );
        }
    }

    #[test]
    fn the_house_rules_hold_here() {
        let tree = Tree::read(&shell::root().expect("cargo names the manifest")).expect("the workspace is readable");
        assert!(tree.files.iter().any(|file| file.path == "xtask/src/tidy/mod.rs"), "the walk missed this very file");
        assert!(tree.packages.iter().any(|package| package.name == "trimtab-types"), "the crates were not read");
        let findings: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{} house rules broken:\n{}", findings.len(), findings.join("\n"));
    }
}
