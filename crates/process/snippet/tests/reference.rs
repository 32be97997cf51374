//! `docs/probe-language.md` says what is true: every example in it compiles, and what it says of limits is so.
//!
//! Next: `language`, what the examples do.

mod common;

use common::facts;
use trimtab_snippet::{Permissions, compile, parse};

const PAGE: &str = include_str!("../../../../docs/probe-language.md");

/// The fenced blocks of one kind.
fn examples(kind: &str) -> Vec<&'static str> {
    let blocks = PAGE.split("\n```").collect::<Vec<_>>();
    let wanted = blocks.iter().filter_map(|block| block.strip_prefix(kind)?.strip_prefix('\n'));
    wanted.collect()
}

fn program() -> trimtab_snippet::table::Table {
    let mut table = facts();
    for function in &mut table.functions {
        if function.name.starts_with("MPI_") {
            function.library = "libmpi.so.12".into();
        }
    }
    table
}

#[test]
fn every_example_compiles() {
    let plain = examples("probe");
    assert!(plain.len() >= 9, "the examples were not found: {}", plain.len());
    let allow = Permissions { write: true, call: true };
    let allowed = examples("probe allow");
    assert_eq!(allowed.len(), 1);
    for (script, permissions) in
        plain.iter().map(|script| (script, Permissions::default())).chain(allowed.iter().map(|script| (script, allow)))
    {
        if let Err(refused) = compile(script, &program(), permissions) {
            panic!("{script}\n{}", refused.render(script));
        }
    }
    for script in allowed {
        assert!(compile(script, &program(), Permissions::default()).is_err(), "nothing had to be allowed: {script}");
    }
}

#[test]
fn examples_read_the_same_once_printed() {
    for script in examples("probe").into_iter().chain(examples("probe allow")) {
        let printed = parse(script).expect("examples parse").to_string();
        let again = parse(&printed).unwrap_or_else(|refused| panic!("{printed}\n{}", refused.render(&printed)));
        assert_eq!(again.to_string(), printed);
        let (first, second) = (compile(script, &program(), ALL), compile(&printed, &program(), ALL));
        assert_eq!(first.expect("examples compile").unit, second.expect("printed examples compile").unit, "{printed}");
    }
}

const ALL: Permissions = Permissions { write: true, call: true };

#[test]
fn the_limits_are_those_of_the_page() {
    use trimtab_snippet::parse::{HEIGHT_MAX, NAME_BYTES_MAX, NESTING_MAX, PROBES_MAX, SCRIPT_BYTES_MAX};
    use trimtab_snippet::resolve::{AREA_BYTES_MAX, COST_MAX, TEMPORARIES_MAX, TEXT_BYTES_MAX, VARIABLES_MAX};
    let page: String = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        format!("{} KiB of text", SCRIPT_BYTES_MAX / 1024),
        format!("{PROBES_MAX} probes"),
        format!("{VARIABLES_MAX} variables, {TEMPORARIES_MAX} `let` per body"),
        format!("(up to {TEXT_BYTES_MAX} bytes)"),
        format!("{NESTING_MAX} levels of brackets and braces"),
        format!("{HEIGHT_MAX} operators in a row"),
        format!("{NAME_BYTES_MAX} bytes of a name"),
        format!("{} KiB of variables per thread", AREA_BYTES_MAX / 1024),
        format!("at most {},{:03} operations", COST_MAX / 1000, COST_MAX % 1000),
    ] {
        assert!(page.contains(&said), "the page does not say: {said}");
    }
}
