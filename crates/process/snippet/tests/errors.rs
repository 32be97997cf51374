//! The message a user reads when a script is refused: the place, what was expected, what is near, what to do.
//!
//! Next: `hostile` for scripts nobody means.

mod common;

use common::facts;
use trimtab_snippet::error::Code;
use trimtab_snippet::{Permissions, Refused, compile};

fn refused(script: &str) -> Refused {
    match compile(script, &facts(), Permissions::default()) {
        Err(refused) => refused,
        Ok(_) => panic!("accepted: {script}"),
    }
}

fn rendered(scripts: &[&str]) -> String {
    scripts.iter().map(|script| refused(script).render(script)).collect::<Vec<_>>().join("\n")
}

/// Compares with the file of that name.
fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, text) });
}

#[test]
fn names_that_are_not_there() {
    snapshot(
        "names_that_are_not_there",
        &rendered(&[
            "entry MPI_Sned { n++ }",
            "entry foo@libm.so { n++ }",
            "entry MPI_Send { bytes += $conut }",
            "entry MPI_Send { bytes += count }",
            "entry MPI_Send { bytes += $9 }",
            "entry solve { x = rnak + iterations }",
            "at solver.c:214 { x = residaul }",
            "at solver.c:214 { x = twice }",
            "entry move { x = $p->mas }",
            "entry move { x = sizeof(strcut particle) }",
            "entry move { x = (partical *)$p }",
            "entry solve { x = histo($count) }",
            "loop solev:1 { n++ }",
            "at other.c:3 { n++ }",
        ]),
    );
}

#[test]
fn words_that_cannot_stand_there() {
    snapshot(
        "words_that_cannot_stand_there",
        &rendered(&[
            "enter solve { n++ }",
            "entry { n++ }",
            "entry solve n++",
            "entry solve(int { n++ }",
            "entry solve { n++",
            "entry solve { n + 1 }",
            "entry solve { x = }",
            "entry solve { hist($count) }",
            "entry solve { if $count { n++ } }",
            "entry solve { int x = 3 }",
            "entry solve { send(3) }",
            "entry solve { send(\"a\", \"b\") }",
            "entry solve { x = 3 @ 4 }",
            "entry solve { x = 12abc }",
            "entry solve { x = \"abc }",
            "entry solve { x = 99999999999999999999 }",
            "thread x;",
            "start then 5;",
            "every 100 { n++ }",
            "every 1us { n++ }",
            "call solve { n++ }",
            "loop solve { n++ }",
            "loop solve:0 { n++ }",
            "at nowhere { n++ }",
            "entry solve { break; }",
            "/* never",
            "",
            "thread int x; // nothing else",
        ]),
    );
}

#[test]
fn values_that_do_not_fit() {
    snapshot(
        "values_that_do_not_fit",
        &rendered(&[
            "entry solve { x = $tolerance % 2 }",
            "entry solve { x = $count.member }",
            "entry move { x = *$p }",
            "entry move { x = $p * 2 }",
            "entry move { x = $p + 0.5 }",
            "entry solve { x = *$count }",
            "entry solve { x = \"text\" }",
            "entry solve { x = $tolerance == \"text\" }",
            "entry solve { x = hist($count); x++ }",
            "entry solve { x = hist($count) } exit solve { x = min($ret) }",
            "entry solve { x = hist($count); y = x }",
            "entry solve { x = 1 + hist($count) }",
            "entry solve { x = min(1, 2, 3) }",
            "entry solve { x = abs() }",
            "entry solve { x = &$count }",
            "entry solve { elapsed = 3 }",
            "process int x; entry solve { x = hist($count) }",
            "thread int x, x; once {}",
        ]),
    );
}

#[test]
fn what_is_not_known_at_a_point() {
    snapshot(
        "what_is_not_known_at_a_point",
        &rendered(&[
            "entry solve { x = elapsed }",
            "entry solve { x = $ret }",
            "exit solve { x = $count }",
            "exit solve { x = $0 }",
            "exit move { x = $ret }",
            "at solver.c:214 { x = $0 }",
            "every 1s { x = $0 }",
            "every 1s { x = stack() }",
            "stop when ($count > 3); entry solve {}",
        ]),
    );
}

#[test]
fn what_is_not_allowed_or_not_bounded() {
    snapshot(
        "what_is_not_allowed_or_not_bounded",
        &rendered(&[
            "entry solve { $count = 3 }",
            "entry solve { ::phase = 3 }",
            "once { call fflush(0) }",
            "entry solve { while ($count > 0) { n++ } }",
            "entry solve { for (let i = 0; i < $count; i++) { n++ } }",
            "entry solve { for (let i = 0; i < 9; i++) { i = 0 } }",
            "entry solve { repeat $count { n++ } }",
            "entry solve { repeat 1000 { repeat 1000 { n++ } } }",
            "entry solve { while (1) limit -1 { n++ } }",
        ]),
    );
}

#[test]
fn all_problems_are_found_in_one_go() {
    let script = "entry MPI_Sned { n++ }\nentry solve {\n    x = ;\n    y = $conut;\n    z = 1 +* ;\n}\nexit solve { w = rnak }\n";
    let parsing = refused(script);
    assert_eq!(parsing.problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [3, 5]);
    let script = "entry MPI_Sned { n++ }\nentry solve {\n    y = $conut;\n    while (1) { v = rnak }\n}\nexit solve { w = rnaks }\n";
    let meaning = refused(script);
    assert_eq!(meaning.problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [1, 3, 4, 4, 6]);
    snapshot("all_problems_are_found_in_one_go", &meaning.render(script));
}

#[test]
fn programs_get_the_same_facts() {
    let script = "entry MPI_Send {\n    bytes += $conut }";
    let refused = refused(script);
    snapshot("programs_get_the_same_facts", &serde_json::to_string_pretty(&refused).expect("facts are plain"));
    assert_eq!(refused.to_string(), "2:14: `$conut` of `MPI_Send` is not known");
}

#[test]
fn one_fault_in_many_functions_is_one_problem() {
    let refused = refused("entry *o* { x = $nothing }");
    assert_eq!(refused.problems.len(), 1);
    assert_eq!(refused.problems[0].code, Code::UnknownName);
}

#[test]
fn calls_need_their_function_and_their_permission() {
    let allow = Permissions { write: true, call: true };
    for (script, message) in [
        ("once { call flush(0) }", "there is no function `flush` to call"),
        ("once { call fflush(0.5) }", "called functions get integers and addresses only"),
        ("once { call fflush(1, 2, 3, 4, 5, 6, 7) }", "a called function gets at most 6 arguments"),
        ("entry solve { $rsp = 1 }", "`$rsp` and `$rip` cannot be changed"),
        ("entry solve { $tolerance = 1 }", "floats in registers cannot be assigned to"),
        ("entry move { $p->flags = 1 }", "bit fields cannot be assigned to"),
        ("entry move { *$p = 1 }", "this cannot be assigned to: it is not a number or an address"),
        ("entry move { 3 = 1 }", "this is a value, not a place that holds one"),
    ] {
        let refused = compile(script, &facts(), allow).expect_err(script);
        assert_eq!(refused.problems[0].message, message, "{script}");
    }
}

#[test]
fn long_lines_are_cut_around_the_place() {
    let script = format!("entry solve {{ {} x = rnak; {} }}", "n++; ".repeat(100), "n++; ".repeat(100));
    let text = refused(&script).render(&script);
    assert!(text.lines().all(|line| line.chars().count() < 130), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let caret = lines[4].find('^').expect("a caret");
    assert_eq!(&lines[3][caret..caret + 4], "rnak", "{text}");
}

#[test]
fn columns_count_characters() {
    let script = "entry solve { send(\"größe – ☃\"); x = rnak }";
    let refused = refused(script);
    assert_eq!(refused.problems[0].column, 38);
    let text = refused.render(script);
    let lines: Vec<&str> = text.lines().collect();
    let before = lines[4].split('^').next().expect("a caret").chars().count();
    assert_eq!(lines[3].chars().skip(before).take(4).collect::<String>(), "rnak");
}
