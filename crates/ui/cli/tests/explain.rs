//! `trimtab explain`: what it prints and returns, of a file, of a process, and of a job in the store.
//!
//! The program is a few instructions at fixed addresses, so what is overwritten and what is moved is known.
//!
//! Next: `docs/explain.md`, which describes this output.

mod common_trace;

use common_trace::{Home, alone, bare_program, json, keys, steady};
use trimtab_specimens::{Mpi, TextSnapshot};

/// A function with room for a jump, and one without.
const PROGRAM: &str = r#"
        .text
        .globl _start, leaf, add
        .type leaf, @function
leaf:   ret
        .size leaf, . - leaf
        .type add, @function
add:    lea 1(%rdi,%rsi), %rax
        ret
        .size add, . - add
        .type _start, @function
_start: call add
        call leaf
        mov $60, %eax
        xor %edi, %edi
        syscall
        hlt
        .size _start, . - _start
"#;

/// The program in a file of that folder.
fn program(home: &Home) -> String {
    bare_program(home, PROGRAM).to_str().expect("a path of text").to_owned()
}

#[test]
fn bytes_before_and_after_and_code_are_shown() {
    let home = Home::new();
    let file = program(&home);
    let outcome = home.run(&["explain", "entry add { n++; when = 5 }", &file]);
    let expected = [
        "not loaded",
        "runs at entries",
        "entry add { n++; when = 5 }",
        "0x401001  48 8d 44 37 01  -> e9 ",
        "before: 0x401001  48 8d 44 37 01               lea rax, [rdi+rsi+1]",
        // Instructions that were overwritten run in the island, which goes back behind them or returns itself.
        "lea rax, [rdi+rsi+1]",
        "entry of add, body 0",
        "; claim a thread's area",
        "nothing was changed",
    ];
    outcome.reports("a file", 0, &expected);
    let (before, code) = outcome.stdout.split_once("before:").expect("a piece of code");
    assert!(!before.contains("lea rax") && code.matches("lea rax, [rdi+rsi+1]").count() == 2, "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("routines that bodies share"), "{}", outcome.stdout);
}

#[test]
fn options_choose_what_is_shown() {
    let home = Home::new();
    let file = program(&home);
    let script = home.path("script");
    std::fs::write(&script, "entry add { n++ }\nexit add { m++ }").expect("writes");
    let script = script.to_str().expect("a path of text");
    for (name, arguments, code, expected, absent) in [
        (
            "both ends",
            &["entry add { n++ } exit add { m++ }", &file][..],
            0,
            &["entry of add, bodies 0, 1"][..],
            "not probed",
        ),
        ("a file", &["--file", script, &file], 0, &["entry add { n++ }", "exit add { m++ }"], "not probed"),
        ("routines", &["entry add { n++ }", &file, "--routines"], 0, &["routine: count a stack", "(data)"], "(bad)"),
        (
            "limit",
            &["entry add, _start { n++ }", &file, "--limit", "1"],
            0,
            &["1 more writes are not shown; --limit 0 shows all", "1 more pieces of code"],
            "body 1",
        ),
        ("some refused", &["entry add, leaf { n++ }", &file], 1, &["not probed: leaf: only 1 free byte"], "body 1"),
        ("the clock", &["every 1s { k++ } entry add { n++ }", &file], 0, &["runs every 1000000 us"], "not probed"),
        (
            "time",
            &["exit add { t += elapsed }", &file],
            0,
            &["(remembers which calls are open)", "rdtsc"],
            "not probed",
        ),
    ] {
        let outcome = home.run(&[&["explain"][..], arguments].concat());
        outcome.reports(name, code, expected);
        assert!(!outcome.stdout.contains(absent), "{name}: {absent:?} in {}", outcome.stdout);
    }
    for (name, arguments, fragment) in [
        ("no file", &["entry add { n++ }", "./nowhere/few"][..], "there is no file"),
        ("no job", &["entry add { n++ }", "nojob"], "no process id, no file and no job that runs"),
        ("no program", &["entry add { n++ }", "Cargo.toml"], "Cargo.toml"),
        ("no target", &["entry add { n++ }"], "one process id, job or file"),
        ("no place", &["entry leaf { n++ }", &file], "the file: no place of the script can be probed: leaf"),
        ("no function", &["entry nowhere { n++ }", &file], "no function matches `nowhere`"),
        ("a call", &["entry add { call leaf() }", &file, "--allow-call"], "explain this script for a process"),
        ("limit and JSON", &["entry add { n++ }", &file, "--json", "--limit", "1"], "cannot be used with"),
    ] {
        let outcome = home.run(&[&["explain"][..], arguments].concat());
        assert_eq!(outcome.code(), 2, "{name}: {outcome:?}");
        assert!(outcome.stderr.contains(fragment), "{name}: {outcome:?}");
    }
}

/// A program with types of its own, and a second one that shares them.
const TYPED: &str = r#"
struct pair { int a; double b; };
int volatile seen;
__attribute__((noinline)) double weigh(struct pair *p, int n) {
    for (int i = 0; i < n; i++) seen = seen + i;
    return p->b * n;
}
int main(int count, char **words) {
    struct pair p = { 1, 2.5 };
    return weigh(&p, count) > OTHER;
}
"#;

/// Debugging information that is packed or elsewhere is followed, or the file with it is named; a type that is not known is
/// never taken for another one, and what has no need of types goes on without.
#[test]
fn debugging_information_elsewhere_is_followed_or_named() {
    let home = Home::new();
    let at = |name: &str| home.path(name).to_str().expect("a path of text").to_owned();
    let run = |command: &str| {
        let done = std::process::Command::new("sh").args(["-c", command]).current_dir(home.path("")).status();
        done.expect("sh runs").success()
    };
    std::fs::write(home.path("typed.c"), TYPED).expect("a source");
    assert!(run("gcc -O2 -g -DOTHER=1 typed.c -o plain && gcc -O2 -g -DOTHER=2 typed.c -o other"));
    assert!(run("gcc -O2 -g -gsplit-dwarf -DOTHER=1 typed.c -o split"));
    assert!(run(
        "objcopy --compress-debug-sections=zlib-gnu plain packed && cp plain linked && strip --strip-debug linked"
    ));
    assert!(run("objcopy --only-keep-debug plain plain.debug && objcopy --add-gnu-debuglink=plain.debug linked"));
    let id = "$(readelf -n plain | sed -n 's/.*Build ID: //p')";
    assert!(run(&format!("cp linked fetched && mkdir -p cache/{id} && cp plain.debug cache/{id}/debuginfo")));
    assert!(run("mkdir -p moved && mv plain.debug moved && cp linked lost && rm -f linked.debug"));
    let has_dwz = run("cp plain first && cp other second && dwz -m common.debug first second");
    if !has_dwz {
        trimtab_specimens::skip(
            "a supplementary file of debugging information",
            "there is no dwz: apt-get install dwz",
        );
    }
    let named = "entry weigh { x = last($n) } exit weigh { r = last($ret) }";
    // Its result is a double, which is not in the register of integers.
    let result = "exit weigh { r = last($ret) }";
    let after = "call after main:weigh { r = hist($ret) }";
    let by_number = "entry weigh { x = last($1) } exit weigh { r = last($fret); n++ }";
    let cache = home.path("cache");
    let nowhere = home.path("nowhere");
    for (file, cache, fragment) in [
        ("plain", &nowhere, None),
        ("packed", &nowhere, None),
        ("fetched", &cache, None),
        ("lost", &nowhere, Some("plain.debug, which was not found")),
        ("split", &nowhere, Some(".dwo, which trimtab does not read")),
        ("first", &nowhere, Some("common.debug, which trimtab does not read")),
    ] {
        if file == "first" && !has_dwz {
            continue;
        }
        // Where all of it is in a file that was not found, a function is as one of which nothing was ever known.
        let of_result = if file == "lost" { None } else { fragment };
        for (script, fragment) in [(named, fragment), (result, of_result), (after, of_result), (by_number, None)] {
            let mut command = home.command(&["explain", script, &at(file)]);
            command.env("DEBUGINFOD_CACHE_PATH", cache);
            let outcome = home.start_command(command).wait();
            assert_eq!(outcome.code(), if fragment.is_some() { 2 } else { 0 }, "{file} {script}: {outcome:?}");
            assert!(fragment.is_none_or(|fragment| outcome.stderr.contains(fragment)), "{file} {script}: {outcome:?}");
        }
    }
}

/// The shape that docs/explain.md promises.
#[test]
fn json_is_as_described() {
    let home = Home::new();
    let file = program(&home);
    let outcome = home.run(&["explain", "entry add, leaf { n++ }", &file, "--json"]);
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    let found = json(&outcome.stdout);
    let top = ["awaited", "bodies", "code", "code_bytes", "file", "refused", "version", "writes"];
    assert_eq!(keys(&found), top);
    assert_eq!((&found["version"], &found["file"]), (&1.into(), &file.as_str().into()));
    let island = found["code"].as_array().expect("pieces").iter().find(|piece| piece["role"] == "island");
    let island = island.expect("an island");
    assert_eq!((&island["write"], &island["bodies"]), (&0.into(), &serde_json::json!([0])));
    let rows = [&found["bodies"][0], &found["writes"][0], &found["refused"][0], island, &island["instructions"][0]];
    let described = include_str!("../../../../docs/explain.md");
    for key in rows.into_iter().flat_map(keys).chain(top) {
        assert!(described.contains(&format!("`{key}`")), "{key} is not described");
    }
    assert_eq!(found["writes"][0]["before"], "48 8d 44 37 01");
    assert_eq!(found["refused"][0]["name"], "leaf");
}

/// The bytes that a process would get are those of its memory; nothing is changed. A job in the store goes by its name.
#[test]
fn a_process_is_explained_while_it_runs() {
    let _alone = alone();
    let (home, job) = (Home::new(), steady(Mpi::Mpich, ""));
    let pid: i32 = job.rank(0).parse().expect("a number");
    let text = TextSnapshot::of(pid).expect("its text");
    let outcome = home.run(&["explain", "entry MPI_Allreduce { n++ }", &job.rank(0), "--json"]);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let found = json(&outcome.stdout);
    let write = &found["writes"][0];
    let address =
        write["address"].as_str().and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let before = write["before"].as_str().expect("bytes");
    let mut now = vec![0; before.split(' ').count()];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("its memory");
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut now, address.expect("an address")).expect("reads");
    assert_eq!(now.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "), before);
    let measured = home.run(&["attach", &job.launcher(), "--iterations", "2", "--json", "-"]);
    let name = json(&measured.stdout)["job"]["id"].as_str().map(str::to_owned);
    let name = name.unwrap_or_else(|| panic!("no job in {measured:?}"));
    home.run(&["explain", "entry MPI_Allreduce { n++ }", &name]).reports("by job", 0, &["entry of MPI_Allreduce"]);
    assert_eq!(text.difference_now().expect("it runs on"), None);
    job.goes_on("explained");
    job.ends_well("explained");
}
