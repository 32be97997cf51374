//! Scripts that nobody means: random bytes, random tokens, giants, deep nests. They are refused or compiled, never a
//! panic, an overflow of the stack or an endless loop; and what is compiled runs, within the cost that was promised.
//!
//! Next: `reference` for what the language's page promises.

mod common;

use common::survive::{ALL, SOUND, WORDS, facts, survive};
use proptest::prelude::*;
use trimtab_snippet::error::Code;
use trimtab_snippet::parse::{HEIGHT_MAX, NESTING_MAX, SCRIPT_BYTES_MAX};
use trimtab_snippet::{compile, parse};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_is_survived(script in ".{0,200}") {
        survive(&script);
    }

    #[test]
    fn random_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survive(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_words_are_survived(words in prop::collection::vec(prop::sample::select(WORDS), 0..60)) {
        survive(&words.concat());
    }

    #[test]
    fn random_bodies_are_survived(words in prop::collection::vec(prop::sample::select(WORDS), 0..30), point in 0..4_usize) {
        let point = ["entry solve", "exit norm", "at solver.c:214", "entry move, MPI_Send, log_line"][point];
        survive(&format!("{point} {{ {} }}", words.concat()));
    }

    #[test]
    fn generated_scripts_compile_run_and_print(statements in prop::collection::vec(statement(), 1..6)) {
        let script = format!("entry solve {{ {} }}", statements.join("; "));
        let printed = parse(&script).expect("generated to parse").to_string();
        let again = parse(&printed).unwrap_or_else(|refused| panic!("{}", refused.render(&printed)));
        prop_assert_eq!(again.to_string(), printed.clone());
        match (compile(&script, facts(), ALL), compile(&printed, facts(), ALL)) {
            (Ok(first), Ok(second)) => prop_assert_eq!(first.unit, second.unit),
            (first, second) => prop_assert_eq!(first.is_ok(), second.is_ok()),
        }
        survive(&script);
    }

    #[test]
    fn a_cut_or_changed_script_is_survived(cut in 0..600_usize, at in 0..600_usize, word in prop::sample::select(WORDS)) {
        let mut script = SOUND.to_string();
        let at = at.min(script.len());
        script.insert_str(at, word);
        script.truncate(cut.min(script.len()));
        survive(&script);
    }
}

#[test]
fn the_sound_script_is_sound() {
    assert!(SOUND.len() < 600 && SOUND.is_ascii());
    assert!(survive(SOUND));
}

const LEAVES: &[&str] =
    &["1", "0x7f", "2.5", "$count", "$tolerance", "rank", "n", "::phase", "grid[1]", "first.mass", "'a'", "now"];
const OPERATORS: &[&str] =
    &["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&&", "||"];

/// An expression that parses, by growing operands.
fn expression() -> impl Strategy<Value = String> {
    prop::sample::select(LEAVES).prop_map(str::to_string).boxed().prop_recursive(5, 40, 3, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(OPERATORS), inner.clone())
                .prop_map(|(a, o, b)| format!("{a} {o} {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) - {b}")),
            (prop::sample::select(&["-", "!", "~", "(int)", "(double)", "(char)"][..]), inner.clone())
                .prop_map(|(o, a)| format!("{o}({a})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("max({a}, {b})")),
            inner.prop_map(|a| format!("abs({a})")),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    prop_oneof![
        expression().prop_map(|e| format!("x = {e}")),
        expression().prop_map(|e| format!("n += {e}")),
        expression().prop_map(|e| format!("h = hist({e})")),
        expression().prop_map(|e| format!("lo = min({e})")),
        (expression(), expression()).prop_map(|(a, b)| format!("if ({a}) {{ y = {b} }} else y = 1")),
        (expression(), expression()).prop_map(|(a, b)| format!("while ({a}) limit 3 {{ z -= {b}; }}")),
        expression().prop_map(|e| format!("repeat 2 {{ let t = {e}; w = mean(t) }}")),
        expression().prop_map(|e| format!("send(\"t\", {e})")),
        expression().prop_map(|e| format!("$count = (int)({e})")),
    ]
}

#[test]
fn giants_are_refused_at_once() {
    let giant = "n++; ".repeat(SCRIPT_BYTES_MAX);
    let refused = parse(&giant).expect_err("too long");
    assert_eq!(refused.problems[0].code, Code::TooLarge);
    let many = "once {} ".repeat(SCRIPT_BYTES_MAX / 8 - 1);
    assert!(parse(&many).expect_err("too many probes").problems.iter().all(|problem| problem.code == Code::TooLarge));
}

/// Runs a check with less stack than threads have by default, so that there is room for callers.
fn with_little_stack(check: fn()) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(check).expect("a thread starts");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

const STACK_BYTES: usize = 1280 * 1024;

#[test]
fn deep_nests_are_refused() {
    with_little_stack(refuse_deep_nests);
}

fn refuse_deep_nests() {
    let half = SCRIPT_BYTES_MAX / 3;
    for (name, script) in [
        ("parentheses", format!("once {{ x = {}1{} }}", "(".repeat(half), ")".repeat(half))),
        ("open parentheses", format!("once {{ x = {}", "(".repeat(half))),
        ("minus", format!("once {{ x = {}1 }}", "- ".repeat(half))),
        ("loads", format!("once {{ x = {}1 }}", "*".repeat(half))),
        ("braces", format!("once {}{}", "{".repeat(half), "}".repeat(half))),
        ("ifs", format!("once {{ {} n++ }}", "if (1) ".repeat(half / 4))),
        ("elses", format!("once {{ {} n++ }}", "if (1) n++; else ".repeat(half / 9))),
        ("repeats", format!("once {{ {} n++ }}", "repeat 1 ".repeat(half / 5))),
        ("sum", format!("once {{ x = {}1 }}", "1+".repeat(half))),
        ("members", format!("once {{ x = first{} }}", ".next".repeat(half / 3))),
        ("arrows", format!("once {{ x = list{} }}", "->next".repeat(half / 4))),
        ("indices", format!("once {{ x = {}1{} }}", "grid[".repeat(half / 3), "]".repeat(half / 3))),
        ("choices", format!("once {{ x = {}1 }}", "1 ? 1 : ".repeat(half / 5))),
        ("other choices", format!("once {{ x = {}1 }}", "1 ? ".repeat(half / 3))),
        ("casts", format!("once {{ x = {}1 }}", "(int)".repeat(half / 3))),
        ("named casts", format!("once {{ x = {}1 }}", "(a)".repeat(half / 2))),
        ("stars", format!("once {{ x = (int {})1 }}", "*".repeat(half))),
        ("calls", format!("once {{ x = {}1{} }}", "abs(".repeat(half / 3), ")".repeat(half / 3))),
        ("sizes", format!("once {{ x = {}1{} }}", "sizeof(".repeat(half / 4), ")".repeat(half / 4))),
        ("spaces", format!("once {{ x = a{} }}", "::a".repeat(half / 2))),
    ] {
        let refused = compile(&script, facts(), ALL).expect_err(name);
        assert!(refused.problems.iter().any(|problem| problem.code == Code::TooLarge), "{name}: {refused}");
        assert!(!refused.render(&script).is_empty());
    }
}

#[test]
fn what_is_nested_almost_too_deeply_runs() {
    with_little_stack(run_what_is_nested_almost_too_deeply);
}

fn run_what_is_nested_almost_too_deeply() {
    let depth = NESTING_MAX - 4;
    for script in [
        format!("once {{ x = {}1{} }}", "(1+".repeat(depth), ")".repeat(depth)),
        format!("once {{ {}n++{} }}", "if (1) { ".repeat(depth), "}".repeat(depth)),
        format!("once {{ x = {}1 }}", "- ".repeat(HEIGHT_MAX - 2)),
        format!("once {{ x = 1{} }}", " + now".repeat(HEIGHT_MAX - 2)),
    ] {
        assert!(survive(&script), "{}", compile(&script, facts(), ALL).expect_err("refused").render(&script));
    }
}

#[test]
fn expressions_do_not_grow_by_doubling() {
    let nested = (0..20).fold("1".to_string(), |inner, _| format!("sizeof(*(MPI_Datatype *)({inner}))"));
    let script = format!("once {{ x = {nested} }}");
    let refused = compile(&script, facts(), ALL).expect_err("each level holds the one below twice");
    assert_eq!(refused.problems[0].code, Code::TooLarge);
}

#[test]
fn too_many_variables_and_bytes_are_refused() {
    let variables: String = (0..300).map(|index| format!("v{index}++; ")).collect();
    let histograms: String = (0..256).map(|index| format!("v{index} = stack(1); ")).collect();
    let temporaries: String = (0..65).map(|index| format!("let t{index} = now; ")).collect();
    for body in [variables, histograms, temporaries] {
        let script = format!("entry solve {{ {body} }}");
        let refused = compile(&script, facts(), ALL).expect_err("too much");
        assert!(refused.problems.iter().any(|problem| problem.code == Code::TooLarge), "{refused}");
    }
}
