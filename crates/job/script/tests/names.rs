//! Which function a name means: as people write it, as the loader understands it, in each of several processes.
//!
//! Next: `points.rs` for places inside functions.

mod common;

use common::{PATIENCE, Program, build_of, options, run, words};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use trimtab_script::{PointKind, Running, Target, list_points};
use trimtab_session::ImageCache;

#[test]
fn names_as_people_write_them_are_accepted() {
    let program = Program::start(&build_of("spelled", "c++", &["spelled.cc"], &["-O2", "-g"]));
    let modules = program.modules();
    for (pattern, functions) in [
        ("advance", 2),
        ("advance(int const*)", 1),
        ("advance(const int *)", 1),
        ("advance(int, double)", 1),
        ("advance(int)", 0),
        ("ns::S::advance*", 1),
        ("ns::S::advance", 1),
        ("ns::S::advance(int) const", 1),
        ("_ZNK2ns1S7advanceEi", 1),
    ] {
        let mut found = 0;
        let mut count = |_| {
            found += 1;
            Ok::<(), ()>(())
        };
        list_points(&modules, pattern, &[PointKind::Entry], &mut count).expect("counts");
        assert_eq!(found, functions, "points {pattern}");
        assert_eq!(modules.definitions(pattern).len(), if pattern.ends_with('*') { 0 } else { functions }, "{pattern}");
        if functions > 0 {
            // As it is, without quotes, in a script.
            let found = program.counts(&format!("entry {pattern} {{ n++ }}"), |found| found["n"] > 5);
            assert!(found["n"] > 5, "{pattern}");
        }
    }
    for (script, fragments) in [
        ("entry rhs { n++ }", &["rhs_"][..]),
        ("entry RHS { n++ }", &["rhs_"]),
        ("entry small { n++ }", &["inlined", "spelled.cc:38", "`at "]),
        ("entry advance(int) { n++ }", &["no function matches `advance(int)`"]),
    ] {
        let said = program.refusal(script);
        fragments.iter().for_each(|fragment| assert!(said.contains(fragment), "{script}: {said}"));
    }
}

/// The library with the function, under a name of its own.
fn library(case: &str) -> PathBuf {
    let built = build_of(case, "cc", &["step.c"], &["-O2", "-shared", "-fPIC", "-Wl,-soname,libstep.so"]);
    let library = built.with_file_name("libstep.so");
    std::fs::rename(&built, &library).expect("was built");
    library
}

#[test]
fn a_bare_name_means_what_the_loader_means() {
    let (real, before) = (library("step"), library("before"));
    let folder = real.parent().expect("a folder").to_str().expect("a path of text");
    let flags = [format!("-L{folder}"), "-lstep".into(), format!("-Wl,-rpath,{folder}"), "-ldl".into()];
    let built = build_of("twice", "cc", &["twice.c"], &["-c", "-O2"]);
    let object = built.with_file_name("twice.o");
    std::fs::rename(&built, &object).expect("was built");
    let program = object.with_file_name("twice");
    run(Command::new("cc").arg(&object).args(flags).arg("-o").arg(&program));
    std::fs::copy(&before, real.with_file_name("libbefore.so")).expect("a copy");
    let mut commands = [Command::new(&program), Command::new(&program), Command::new(&program)];
    // By name: the loader ends a path at its first blank.
    commands[1].env("LD_PRELOAD", "libbefore.so").env("LD_LIBRARY_PATH", folder);
    commands[2].arg(&real);
    for (mut command, (name, places, module)) in commands.into_iter().zip([
        ("plain", 1, "libstep.so"),
        ("preloaded", 1, "libbefore.so"),
        ("another_namespace", 2, "libstep.so"),
    ]) {
        let program = Program::start_command(&mut command);
        let modules = program.modules();
        let found = modules.definitions("counted_step");
        assert_eq!(found.len(), places, "{name}");
        assert!(found.iter().all(|(found, _)| found.file_name() == module), "{name}");
        let counted = program.counts("entry counted_step { n++ }", |found| found["n"] > 20);
        assert!(counted["n"] > 20, "{name}");
    }
}

#[test]
fn ranks_that_differ_are_named_and_the_others_probed() {
    let built = build_of("differ", "c++", &["spelled.cc"], &["-O2"]);
    let stripped = built.with_file_name("stripped");
    run(Command::new("strip").arg("-o").arg(&stripped).arg(&built));
    let programs = [&built, &stripped, &stripped].map(|program| Program::start(program));
    let target = |(program, rank): (&Program, u32)| Target { pid: program.pid(), rank: Some(rank), ranks: None };
    let targets: Vec<Target> = programs.iter().zip(0..).map(target).collect();
    let cache = ImageCache::in_memory();
    let mut running =
        Running::start(&targets, &options("entry rhs_ { n++ }"), &cache).unwrap_or_else(|e| panic!("{}", words(e)));
    let since = Instant::now();
    while !running.values().iter().any(|value| format!("{value:?}").contains("Int")) && since.elapsed() < PATIENCE {
        running.poll();
        std::thread::sleep(Duration::from_millis(2));
    }
    let (_, _, summary) = running.finish();
    assert_eq!(summary.warnings, ["not probed: rank 1, rank 2: no function matches `rhs_`"]);
    assert_eq!(summary.points, 1);
    let none = Running::start(&targets[1..], &options("entry rhs_ { n++ }"), &cache);
    assert!(none.is_err(), "where none has it, it is refused");
}
