//! How points are written, and what is understood of them.
//!
//! Next: `language` for what runs there.

use trimtab_snippet::parse;
use trimtab_snippet::syntax::{FunctionPattern, LoopEdge, PointKind};

fn points(text: &str) -> Vec<PointKind> {
    let script = format!("{text} {{ n++ }}");
    let script = parse(&script).unwrap_or_else(|refused| panic!("{}", refused.render(&script)));
    assert_eq!(script.probes.len(), 1, "{text}");
    script.probes[0].points.iter().map(|point| point.kind.clone()).collect()
}

fn function(name: &str) -> FunctionPattern {
    FunctionPattern { name: name.into(), library: None }
}

#[test]
fn points_are_understood() {
    for (text, printed) in [
        ("entry f", "entry \"f\""),
        ("exit f,g , h", "exit \"f\", exit \"g\", exit \"h\""),
        ("entry f, exit g, h", "entry \"f\", exit \"g\", exit \"h\""),
        ("entry MPI_*send", "entry \"MPI_*send\""),
        ("entry *", "entry \"*\""),
        ("entry f@libm.so.6", "entry \"f@libm.so.6\""),
        ("entry memcpy@@GLIBC_2.14", "entry \"memcpy@GLIBC_2.14\""),
        ("entry std::vector<int>::push_back", "entry \"std::vector<int>::push_back\""),
        ("entry \"ns::f(int, char const*)\"", "entry \"ns::f(int, char const*)\""),
        ("entry ~a.part.0", "entry \"~a.part.0\""),
        ("entry entry", "entry \"entry\""),
        ("exit exit", "exit \"exit\""),
        ("call f:g", "call before \"f:g\""),
        ("call before f:g", "call before \"f:g\""),
        ("call after f:\"g(int, int)\"", "call after \"f:g(int, int)\""),
        ("call f:g#2, h:*", "call before \"f:g#2\", call before \"h:*\""),
        ("call a::f:b::g", "call before \"a::f:b::g\""),
        ("loop main:1", "loop pass \"main:1\""),
        ("loop pass main:1.2.3", "loop pass \"main:1.2.3\""),
        ("loop entry main:1", "loop entry \"main:1\""),
        ("loop exit main:1", "loop exit \"main:1\""),
        ("loop exit:1", "loop pass \"exit:1\""),
        ("block f:3, f:*", "block \"f:3\", block \"f:*\""),
        ("at file.c:214", "at \"file.c:214\""),
        ("at src/dir/file.c:1", "at \"src/dir/file.c:1\""),
        ("at \"a file.c:7\"", "at \"a file.c:7\""),
        ("at 0x401234", "at 0x401234"),
        ("at libm.so.6:0x40", "at \"libm.so.6:0x40\""),
        ("at f+16, ns::f+0x10", "at \"f+0x10\", at \"ns::f+0x10\""),
        ("every 100ms", "every 100000us"),
        ("every 0.5 s, 2min", "every 500000us, every 120000000us"),
        ("once", "once"),
    ] {
        let script = parse(&format!("{text} {{ n++ }}")).expect(text);
        let understood: Vec<String> = script.probes[0].points.iter().map(ToString::to_string).collect();
        assert_eq!(understood.join(", "), printed, "{text}");
        let again = parse(&script.to_string()).expect("what is printed reads");
        assert_eq!(again.to_string(), script.to_string(), "{text}");
    }
}

#[test]
fn parts_of_points_are_kept_apart() {
    let pattern = FunctionPattern { name: "f".into(), library: Some("libm.so.6".into()) };
    assert_eq!(points("entry f@libm.so.6"), [PointKind::Entry(pattern)]);
    let [PointKind::Loop(found)] = &points("loop exit ns::f:2.1")[..] else { panic!("no loop") };
    assert_eq!((found.edge, &found.function, &found.path[..]), (LoopEdge::Exit, &function("ns::f"), &[2, 1][..]));
    let [PointKind::Call(found)] = &points("call after ns::f:ns::g#3")[..] else { panic!("no call") };
    assert_eq!((found.after, &found.caller, found.number), (true, &function("ns::f"), Some(3)));
    assert_eq!(found.callee, "ns::g");
    assert_eq!(points("at f+0x10"), [PointKind::Offset { function: function("f"), offset: 16 }]);
    assert_eq!(points("at lib.so:0x10"), [PointKind::Address { library: Some("lib.so".into()), address: 16 }]);
    let line =
        |library: Option<&str>| PointKind::Line { file: "lib.c".into(), line: 10, library: library.map(str::to_owned) };
    assert_eq!(points("at lib.c:10"), [line(None)]);
    assert_eq!(points("at lib.c:10@libm++.so.6"), [line(Some("libm++.so.6"))]);
}

#[test]
fn points_that_mean_nothing_are_refused() {
    for text in [
        "entry",
        "entry ,",
        "entry f,",
        "entry f g",
        "call f",
        "call f:",
        "call :g",
        "call f:g#0",
        "call f:g#x",
        "loop f",
        "loop f:0",
        "loop f:1.",
        "loop f:x",
        "loop f:1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1",
        "block f",
        "block f:0",
        "at f",
        "at file.c",
        "at file.c:0",
        "at :5",
        "at 0x",
        "at 0xfffffffffffffffff",
        "at f+x",
        "every",
        "every 5",
        "every ms",
        "every 0s",
        "every 10us",
        "every 1000000000 s",
        "once f",
        "entry f when",
        "entry f when 1",
        "near f",
    ] {
        assert!(parse(&format!("{text} {{ n++ }}")).is_err(), "{text}");
    }
}

#[test]
fn comments_stand_anywhere() {
    let script =
        "# first\nentry /* which */ solve // here\n, norm # there\n{ n++ /* and */ ; // so on\n m++ } /* end */";
    let script = parse(script).expect("comments are blanks");
    assert_eq!(script.to_string(), "entry \"solve\", entry \"norm\" { n += 1; m += 1; }\n");
}

#[test]
fn facts_in_tables_match_patterns() {
    use trimtab_snippet::table::glob;
    for (pattern, text, matches) in [
        ("f", "f", true),
        ("f", "g", false),
        ("*", "", true),
        ("f*", "f", true),
        ("*f", "aaf", true),
        ("a*b*c", "axxbyyc", true),
        ("a*b*c", "axxcyyb", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("**a**", "bab", true),
        ("", "a", false),
    ] {
        assert_eq!(glob(pattern, text), matches, "{pattern} {text}");
    }
    assert!(!glob(&"*a".repeat(500), &"a".repeat(400)), "many stars take no long time");
}
