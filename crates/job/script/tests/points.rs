//! A listed point is the one that a script finds under that text, and what runs there is counted: however the
//! program is linked, with symbols or without, under several names, and in a function that is entered once.
//!
//! Next: `programs/points.c`, whose calls per round are written beside them.

mod common;

use common::{Program, build_of, options, run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_script::{Error, FunctionPoints, ListedPoint, PointKind, explain, list_points};
use trimtab_session::{ImageCache, Modules};
use trimtab_specimens::{TextSnapshot, skip};
use trimtab_symbols::Image;

/// How often the program goes round while it is counted, at least.
const ROUNDS: i64 = 50;
/// The compiler must not put its own code in place of the call.
const FLAGS: [&str; 2] = ["-O1", "-fno-builtin-memcpy"];

fn build(case: &str, flags: &[&str]) -> PathBuf {
    build_of(case, "cc", &["points.c"], &[&FLAGS[..], flags].concat())
}

fn points_of(modules: &Modules, pattern: &str, kinds: &[PointKind]) -> Vec<FunctionPoints> {
    let mut found = Vec::new();
    let listed = list_points(modules, pattern, kinds, &mut |function| -> Result<(), ()> {
        found.push(function);
        Ok(())
    });
    listed.expect("nothing fails");
    found
}

/// A count must be so many times the number of rounds; a round may be begun and not finished.
#[track_caller]
fn is_per_round(case: &str, counts: &BTreeMap<String, i64>, expected: &[(&str, i64)]) {
    let rounds = counts["rounds"];
    for (name, times) in expected {
        let count = counts.get(*name).unwrap_or_else(|| panic!("{case}: no {name} in {counts:?}"));
        assert!((count - times * rounds).abs() <= 2 * times, "{case}: {name}: {count} in {rounds} rounds: {counts:?}");
    }
}

const SCRIPT: &str = "
loop main:1 { rounds++ }
entry work { works++ }
exit work { left++ }
entry work, twice { both++ }
exit tail { tails++ }
call main:twice { calls++ }
call after main:work { returns++ }
call main:usleep { sleeps++ }
loop work:1.1 { inner++ }
entry chosen { chosens++ }
entry memcpy { copies++ }
call main:memcpy { copy_calls++ }
";

const PER_ROUND: [(&str, i64); 11] = [
    ("works", 3),
    ("left", 3),
    ("both", 3),
    ("tails", 1),
    ("calls", 2),
    ("returns", 2),
    ("sleeps", 1),
    ("chosens", 1),
    ("copies", 1),
    ("copy_calls", 1),
    // Passes of the header: (2 + 3 + 5) passes of the outer loop times three or four.
    ("inner", 30),
];

/// The main loop is never entered again; two names are one function; an indirect function is what the loader chose.
#[test]
fn what_runs_is_counted_however_it_is_linked() {
    let has_musl = Command::new("musl-gcc").arg("--version").output().is_ok();
    for (case, compiler, flags) in [
        ("points-pie", "cc", &["-pie", "-fPIE"][..]),
        ("points-fixed", "cc", &["-no-pie", "-fno-pie"]),
        ("points-lazy", "cc", &["-Wl,-z,lazy"]),
        ("points-no-plt", "cc", &["-fno-plt"]),
        ("points-static", "cc", &["-static"]),
        ("points-static-pie", "cc", &["-static-pie", "-fPIE"]),
        ("points-musl", "musl-gcc", &["-DNO_IFUNC"]),
        ("points-musl-static", "musl-gcc", &["-DNO_IFUNC", "-DSIGNALS", "-static"]),
    ] {
        if compiler == "musl-gcc" && !has_musl {
            let name = format!("what_runs_is_counted_however_it_is_linked[{case}]");
            skip(&name, "there is no musl-gcc; install musl-tools");
            continue;
        }
        let program = Program::start(&build_of(case, compiler, &["points.c"], &[&FLAGS[..], flags].concat()));
        let counts = program.counts(SCRIPT, |counts| counts.get("rounds").is_some_and(|rounds| *rounds >= ROUNDS));
        is_per_round(case, &counts, &PER_ROUND);
    }
}

/// A slot that no call has gone through yet does not tell what the loader would choose.
#[test]
fn an_indirect_function_that_nobody_called_is_not_guessed() {
    let library = build_of("picked", "cc", &["picked.c"], &["-O1", "-fPIC", "-shared", "-DLIBRARY"]);
    let folder = library.parent().expect("a folder");
    let found = folder.join("libpicked.so");
    std::fs::rename(&library, &found).expect("renames");
    let program = folder.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/picked.c");
    let run_path = format!("-Wl,-z,lazy,-rpath,{}", folder.display());
    run(Command::new("cc").args(["-O1", &run_path]).arg("-o").arg(&program).args([&source, &found]));
    let program = Program::start(&program);
    let said = program.refusal("entry picked { n++ }");
    assert!(said.contains("no slot of the process holds the code"), "{said}");
    let listed = points_of(&program.modules(), "picked", &[PointKind::Entry]);
    let reason = listed[0].points[0].verdict.as_ref().expect_err("it is not known").to_string();
    assert!(said.contains(&reason), "{reason}: {said}");
}

/// A static program may come without the code by which signal handlers return, which our way in needs: it is refused.
#[test]
fn a_program_without_a_way_in_is_left_alone() {
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        return skip("a_program_without_a_way_in_is_left_alone", "there is no musl-gcc; install musl-tools");
    }
    let flags = [&FLAGS[..], &["-DNO_IFUNC", "-static"]].concat();
    let program = Program::start(&build_of("no-way-in", "musl-gcc", &["points.c"], &flags));
    let before = TextSnapshot::of(program.pid().0).expect("its text");
    let said = program.refusal("entry work { n++ }");
    assert!(said.contains("no code with a system call and a signal return"), "{said}");
    assert_eq!(before.difference_now().expect("it runs on"), None);
}

/// Without symbols a function goes by its address: in the file, or in the process.
#[test]
fn stripped_functions_are_found_by_their_address() {
    for (case, flags) in [("stripped-pie", &["-pie", "-fPIE"][..]), ("stripped-static", &["-static", "-no-pie"])] {
        let program = build(case, flags);
        let image = Image::parse(&std::fs::read(&program).expect("the file")).expect("symbols");
        let address = |name: &str| image.function_named(name).unwrap_or_else(|| panic!("{case}: no {name}")).addr.0;
        let (work, main, tail) = (address("work"), address("main"), address("tail"));
        run(Command::new("strip").arg(&program));
        let running = Program::start(&program);
        let modules = running.modules();
        assert!(modules.modules[0].function("work").is_none(), "{case}: it is not stripped");
        let listed = points_of(&modules, &format!("fn_{work:#x}*"), &[PointKind::Entry]);
        let [function] = listed.as_slice() else { panic!("{case}: {listed:?}") };
        assert_eq!((function.source, function.name.as_str()), ("eh_frame", format!("fn_{work:#x}").as_str()), "{case}");
        let in_process = modules.modules[0].bias.0.wrapping_add(tail);
        let script = format!(
            "loop fn_{main:#x}@program:1 {{ rounds++ }} entry fn_{work:#x} {{ works++ }} exit {work:#x}@program {{ left++ }}
             entry {in_process:#x} {{ tails++ }} call fn_{main:#x}:fn_{work:#x} {{ calls++ }} loop fn_{work:#x}:1.1 {{ inner++ }}"
        );
        let counts = running.counts(&script, |counts| counts.get("rounds").is_some_and(|rounds| *rounds >= ROUNDS));
        is_per_round(case, &counts, &[("works", 3), ("left", 3), ("tails", 1), ("calls", 2), ("inner", 30)]);
    }
}

/// The place at which the text of a point, as a script, would be carried out.
fn is_carried_out(program: &Program, point: &ListedPoint) -> Result<String, String> {
    let explained = explain(&program.modules(), &options(&format!("{} {{ n++ }}", point.point)));
    match explained {
        Ok(explained) => match explained.refused.first() {
            Some(refused) => Err(refused.reason.to_string()),
            None => Ok(explained.plan.to_string()),
        },
        Err(Error::Script(refused)) => Err(format!("{refused:?}")),
        Err(other) => Err(other.to_string()),
    }
}

/// Each listed text is accepted exactly if the point is listed as possible.
#[test]
fn each_listed_point_is_what_a_script_finds() {
    let mut kinds_seen = std::collections::BTreeSet::new();
    let (mut possible, mut refused) = (0, 0);
    for (case, flags) in
        [("listed", &["-g"][..]), ("listed-O2", &["-g", "-O2"]), ("listed-static", &["-fno-plt", "-static"])]
    {
        let program = Program::start(&build(case, flags));
        let modules = program.modules();
        for pattern in ["work", "main", "tail", "chosen"] {
            // Lines take long to look up again and again.
            let kinds = if pattern == "work" { &PointKind::ALL[..] } else { &PointKind::ALL[..5] };
            for function in points_of(&modules, pattern, kinds) {
                for point in &function.points {
                    let found = is_carried_out(&program, point);
                    // Points of one text are probed together: if some can, the script runs and names the others.
                    let same = function.points.iter().filter(|other| other.point == point.point);
                    let expected = same.clone().all(|other| other.verdict.is_ok());
                    assert_eq!(found.is_ok(), expected, "{case}: {point:?}: {found:?}");
                    let (count, whole) = (same.count(), point.verdict.is_ok());
                    *if whole { &mut possible } else { &mut refused } += 1;
                    kinds_seen.insert(point.kind);
                    assert!(
                        count == 1
                            || point.kind == PointKind::Exit
                            || point.kind == PointKind::Loop
                            || point.kind == PointKind::Line,
                        "{case}: {point:?}"
                    );
                }
            }
        }
    }
    assert_eq!(kinds_seen.into_iter().collect::<Vec<_>>(), PointKind::ALL);
    assert!(possible > 100 && refused > 0, "{possible} possible, {refused} refused");
}

/// A file that does not run has the same points as the process, at the file's addresses.
#[test]
fn a_file_has_the_points_of_its_process() {
    let path = build("file", &["-g"]);
    let program = Program::start(&path);
    let (loaded, file) = (program.modules(), Modules::of_file(&path, &ImageCache::in_memory()).expect("the file"));
    let bias = loaded.modules[0].bias;
    for pattern in ["work", "main", "tail"] {
        let [in_process, in_file] = [&loaded, &file].map(|modules| points_of(modules, pattern, &PointKind::ALL));
        let ([in_process], [in_file]) = (in_process.as_slice(), in_file.as_slice()) else { panic!("{pattern}") };
        assert_eq!(in_process.file_address, in_file.address, "{pattern}");
        assert_eq!(in_process.points.len(), in_file.points.len(), "{pattern}");
        for (one, other) in in_process.points.iter().zip(&in_file.points) {
            assert_eq!((one.kind, &one.point, one.verdict.is_ok()), (other.kind, &other.point, other.verdict.is_ok()));
            assert_eq!(one.address, bias.0.wrapping_add(other.address), "{}", one.point);
        }
    }
    let chosen = points_of(&file, "chosen", &PointKind::ALL);
    let reason = chosen[0].points[0].verdict.as_ref().expect_err("nobody has chosen yet").to_string();
    assert!(reason.contains("indirect function") && reason.contains("run time"), "{reason}");
    let text = Modules::of_file(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path(), &program.cache);
    assert!(text.is_err(), "a text is no program");
}

/// Whoever has only a name finds the code that the loader chose, as scripts do.
#[test]
fn an_indirect_function_is_found_by_its_name() {
    let program = Program::start(&build("named", &[]));
    let modules = program.modules();
    for (file, name) in [("program", "chosen"), ("libc.so.6", "memcpy")] {
        let module = modules.modules.iter().find(|module| module.file_name() == file).expect("it is loaded");
        let (function, resolver) = module.function(name).expect("it has a name");
        let code = modules.code_named(module, name).expect("it is there");
        assert!(function.is_ifunc && code != resolver, "{name}");
        let chosen = module.loaded.image.function_at(module.bias.to_file(code)).expect("a function");
        assert!(!chosen.is_ifunc && module.bias.to_proc(chosen.addr) == code, "{name}: {chosen:?}");
        assert_eq!(modules.code_named(module, "no such function"), None);
    }
    let plain = &modules.modules[0];
    assert_eq!(plain.function("work").map(|(_, address)| address), modules.code_named(plain, "work"));
}

/// The language's promise for exceptions: they are no exits, and unwinding goes on as if no probe was there.
#[test]
fn a_function_left_by_an_exception_was_entered_and_not_left() {
    let program = Program::start(&build_of("throws", "c++", &["throws.cc"], &["-O1"]));
    let script = "entry fragile { in++ } exit fragile { out++ } entry between { in_between++ }
                  exit between { out_between++ } entry __cxa_throw { raised++ }
                  entry __cxa_begin_catch { caught++ } call main:between { rounds++ }";
    let counts = program.counts(script, |counts| counts.get("rounds").is_some_and(|rounds| *rounds >= ROUNDS));
    is_per_round("throws", &counts, &[("in", 1), ("in_between", 1)]);
    for name in ["out", "out_between", "raised", "caught"] {
        let (half, count) = (counts["rounds"] / 2, counts[name]);
        assert!((count - half).abs() <= 2, "{name}: {count} of {half}: {counts:?}");
    }
}

/// An exit that asks for it is told of calls that an exception left, when the thread comes by again.
#[test]
fn calls_left_by_an_exception_are_told() {
    let program = Program::start(&build_of("unwound", "c++", &["throws.cc"], &["-O1"]));
    let script = "exit fragile { if ($unwound) thrown++; else { back++; sum += $ret } all++ }
                  exit between { lost += $unwound; time = hist(elapsed) } entry fragile { in++ }
                  call main:between { rounds++ }";
    let counts = program.counts(script, |counts| counts.get("rounds").is_some_and(|rounds| *rounds >= ROUNDS));
    is_per_round("unwound", &counts, &[("in", 1), ("all", 1)]);
    for name in ["thrown", "back", "lost"] {
        let (half, count) = (counts["rounds"] / 2, counts[name]);
        assert!((count - half).abs() <= 2, "{name}: {count} of {half}: {counts:?}");
    }
}
