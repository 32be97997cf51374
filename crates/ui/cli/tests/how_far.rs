//! How far the main loop is and how many iterations it has, beside what programs count themselves: exact, or not claimed.
//!
//! Programs in C, C++ and Fortran, unoptimised and optimised, go through loops of several forms, up and down, by a step, with
//! parts that compilers peel or split off, and with a second way out. Each prints the number of every step and when that was
//! done, and windows end at about 10, 50 and 90 % of them. One claim that is wrong fails the test.
//!
//! Next: `main_loop.rs` for the loop itself; `trimtab-x86`'s `bounds.rs` for more forms.

mod common;

use common::{Home, LIMIT, RANKS, alone};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use trimtab_specimens::{Launch, Mpi, Running, TextSnapshot};
use trimtab_types::report::{LoopProgress, Report};

const STEPS: u64 = 1200;
const LEVELS: [&str; 4] = ["-O0", "-O1", "-O2", "-O3"];
/// Parts of the run, percent, at which a window is asked for.
const PARTS: [u64; 3] = [10, 50, 80];
/// A step ends, and its number is printed, so much before the next pass at most. Windows end when the last rank's does, which
/// may be a step later than that of the rank that prints.
const PRINTED_S: f64 = 200e-6;

/// A program, and its forms: the loop of each, in passes, and whether it must be known in most builds.
struct Program {
    source: &'static str,
    wrapper: &'static str,
    forms: &'static [Form],
}

#[derive(Clone, Copy)]
struct Form {
    number: u32,
    function: &'static str,
    /// Something else ends it before its counter does.
    has_second_exit: bool,
    /// Its beginning is a number, and its test one that can be followed: a claim is to be made.
    is_plain: bool,
    /// Other code may change its bound: nothing is sure. True if that does so.
    is_changed: Option<bool>,
    /// Its tests compare what called functions move: true if looks at them are to tell its end, false if they can't.
    is_seen: Option<bool>,
}

const fn form(number: u32, function: &'static str, has_second_exit: bool, is_plain: bool) -> Form {
    Form { number, function, has_second_exit, is_plain, is_changed: None, is_seen: None }
}

const fn shared(number: u32, function: &'static str, is_changed: bool) -> Form {
    Form { number, function, has_second_exit: false, is_plain: false, is_changed: Some(is_changed), is_seen: None }
}

const fn looked_at(number: u32, function: &'static str, is_seen: bool) -> Form {
    Form { number, function, has_second_exit: true, is_plain: false, is_changed: None, is_seen: Some(is_seen) }
}

const PROGRAMS: [Program; 3] = [
    Program {
        source: "counted.c",
        wrapper: "mpicc",
        forms: &[
            form(0, "solve", false, true),
            form(1, "solve", false, false),
            form(2, "solve", false, true),
            form(3, "solve", false, true),
            form(4, "solve", false, true),
            form(5, "solve", false, false),
            form(6, "solve", true, false),
            form(7, "solve", true, false),
            form(8, "solve", false, false),
            form(12, "follow", false, false),
            // The same as 5, split in two by the compiler.
            form(11, "solve", false, false),
        ],
    },
    Program {
        source: "counted.cpp",
        wrapper: "mpicxx",
        forms: &[
            form(0, "flow::Solver::solve(int)", false, true),
            form(1, "flow::Solver::solve(int)", false, false),
            form(2, "flow::Solver::solve(int)", false, false),
            shared(3, "flow::Solver::solve(int)", false),
            shared(4, "flow::Solver::solve(int)", true),
            // A clock of equal steps, a counter that moves by a variable, a clock whose steps grow, and a residual.
            looked_at(5, "flow::Solver::solve(int)", true),
            looked_at(6, "flow::Solver::solve(int)", true),
            looked_at(7, "flow::Solver::solve(int)", false),
            looked_at(8, "flow::Solver::solve(int)", false),
            // A called function says whether it is over.
            looked_at(9, "flow::Solver::solve(int)", true),
            // A flag that comparisons set before the pass is over.
            looked_at(10, "flow::Solver::solve(int)", true),
        ],
    },
    Program {
        source: "counted.F90",
        wrapper: "mpifort",
        forms: &[
            form(0, "flow::solve", false, true),
            form(1, "flow::solve", false, false),
            form(2, "flow::solve", false, false),
            form(3, "flow::solve", true, false),
        ],
    },
];

fn compiled(home: &Home, program: &Program, form: &Form, mpi: Mpi, level: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/how_far").join(program.source);
    let output = home.path(&format!("{}-{}{level}.bin", program.source, form.number));
    let mut compiler = Command::new(format!("{}.{}", program.wrapper, mpi.name()));
    // Fortran's small functions would else be part of the main program, and the loop with them.
    let flags = ["-g", "-fno-inline-functions-called-once", "-fno-inline-small-functions"];
    compiler.args(flags).arg(level).arg(format!("-DFORM={}", form.number));
    compiler.args(["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", "-o"]).arg(&output).arg(&source).arg("-lm");
    let compiled = compiler.current_dir(home.path("")).output().expect("the compiler runs");
    assert!(compiled.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&compiled.stderr));
    output
}

/// Steps that were printed, with the time of each.
fn steps(printed: &str) -> Vec<(u64, f64)> {
    let whole = printed.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().filter_map(|line| line.split_once(' ')).map(|(step, at)| (number(step), number(at))).collect()
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.trim().parse().expect("a number")
}

fn wait_for(job: &mut Running, step: u64) {
    let deadline = Instant::now() + LIMIT;
    while steps(&job.stdout()).last().is_none_or(|last| last.0 < step) {
        assert!(Instant::now() < deadline, "it does not work: {}", job.stderr());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Attaches once; the report and all that the program printed. `Err` with the words where it had ended before.
fn attached(
    home: &Home,
    program: &Path,
    mpi: Mpi,
    (function, part): (&str, u64),
) -> Result<(Report, Vec<(u64, f64)>), String> {
    let mut job = Launch::mpi(mpi, RANKS, program).args([STEPS.to_string()]).start().expect("it starts");
    wait_for(&mut job, 1);
    let pids = job.rank_pids(LIMIT).expect("ranks");
    let texts: Result<Vec<TextSnapshot>, _> = pids.iter().map(|pid| TextSnapshot::of(*pid)).collect();
    // The test may have waited for a processor for longer than the program ran.
    let Ok(texts) = texts else {
        let ended = job.wait(LIMIT).expect("it ends");
        assert!(ended.status.success(), "{ended:?}");
        return Err("it had ended before it was looked at".to_owned());
    };
    wait_for(&mut job, STEPS * part / 100);
    let options = format!("--loop {function}:1 --iterations 12 --max-seconds 20");
    let report = match home.attach(job.pid(), &options) {
        Ok((_, report)) => report,
        Err(said) if ["ended", "no process"].iter().any(|words| said.stderr.contains(words)) => return Err(said.stderr),
        Err(said) => panic!("{function}: {said:?}"),
    };
    for text in &texts {
        // A program that has ended has no text any more.
        assert!(text.difference_now().is_ok_and(|difference| difference.is_none()) || job.poll().is_ok(), "unchanged");
    }
    // The rest is gone through without its computing.
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _may_have_ended = kill_process(pid, Signal::USR1);
    }
    let finished = job.wait(LIMIT).expect("it ends");
    assert!(finished.status.success(), "{finished:?}");
    Ok((report, steps(&finished.stdout)))
}

/// True if looks tell what they can: the end, or, of a loop that is also left in a way that can't be told, a bound.
fn is_told_by_looks(form: &Form, report: &Report) -> bool {
    let Some(progress) = &report.window.progress else { return false };
    let likely = progress.likely.unwrap_or_default();
    match form.is_seen {
        Some(true) => likely.remaining.is_some(),
        _ => progress.total_at_most.or(likely.remaining_at_most).is_some(),
    }
}

/// Checks what is claimed; whether done and total are, and whether the first is that of the time, if it is claimed.
fn check(name: &str, form: &Form, report: &Report, steps: &[(u64, f64)]) -> (bool, Option<bool>) {
    let Some(progress) = report.window.progress.clone() else { panic!("{name}: nothing is said: {:?}", report.window) };
    let LoopProgress { done, remaining, total, total_at_most, .. } = progress.clone();
    let (window, all) = (&report.window, steps.last().expect("steps").0);
    let ended = window.started_unix_s.expect("it began") + window.duration_s;
    let at_end = |late: f64| steps.iter().take_while(|step| step.1 <= ended + late).count() as u64;
    let (least, most) = (at_end(-PRINTED_S), at_end(PRINTED_S));
    let is_near = |done: u64| (least.saturating_sub(1)..=most + 1).contains(&done);
    assert!(done.is_none_or(is_near), "{name}: {least} to {most}, said {progress:?}");
    assert!(total.is_none_or(|total| total == all), "{name}: {all} steps, said {progress:?}");
    assert!(total_at_most.is_none_or(|total| total >= all), "{name}: {all} steps, said {progress:?}");
    let said_done = done.or_else(|| Some(all - remaining?));
    assert!(said_done.is_none_or(is_near), "{name}: {least} to {most} of {all} steps, said {progress:?}");
    assert!(!form.has_second_exit || (total, remaining) == (None, None), "{name}: {progress:?}");
    assert!(!progress.explanation.is_empty(), "{name}");
    if let Some(is_changed) = form.is_changed {
        assert_eq!((done, remaining, total, total_at_most), (None, None, None, None), "{name}: {progress:?}");
        let likely = progress.likely.unwrap_or_else(|| panic!("{name}: {progress:?}"));
        assert!(likely.done.is_none_or(is_near), "{name}: {least} to {most}, said {progress:?}");
        assert_eq!(likely.total == Some(all), !is_changed, "{name}: {all} steps, said {progress:?}");
    }
    if form.is_changed != Some(true) {
        check_likely(name, &progress, (all.saturating_sub(most + 1), all + 1 - least.min(all)));
    }
    let likely = progress.likely.unwrap_or_default();
    assert!(form.is_seen != Some(false) || likely.remaining.is_none(), "{name}: {progress:?}");
    println!("{name}: {progress:?}");
    let is_claimed = done.is_some() && (total.is_some() || form.has_second_exit);
    (is_claimed, said_done.map(|done| (least..=most).contains(&done)))
}

/// The range of likely steps to come meets that of the steps which came, give or take the one that a look may be late.
fn check_likely(name: &str, progress: &LoopProgress, (least, most): (u64, u64)) {
    let at_most = progress.likely.and_then(|likely| likely.remaining_at_most);
    assert!(
        at_most.is_none_or(|at_most| at_most + 1 >= least),
        "{name}: {least} to {most} steps came, said {progress:?}"
    );
    let Some((likely, left)) = progress.likely.and_then(|likely| Some((likely, likely.remaining?))) else { return };
    let (lower, upper) = (likely.remaining_lower.unwrap_or(left), likely.remaining_upper.unwrap_or(left));
    assert!(lower <= left && left <= upper, "{name}: {progress:?}");
    assert!(lower <= most + 1 && upper + 1 >= least, "{name}: {least} to {most} steps came, said {progress:?}");
}

/// How it is compiled: those of which a claim is expected in most ways, the others in one each.
fn levels(form: &Form) -> Vec<&'static str> {
    let turn = form.number as usize % LEVELS.len();
    let is_wanted = |index: usize| match form.is_plain {
        true => index == 0 || index == 2 || index == 1 + 2 * (turn % 2),
        false => index == turn || (form.is_seen.is_some() && index == (turn + 2) % LEVELS.len()),
    };
    (0..LEVELS.len()).filter(|index| is_wanted(*index)).map(|index| LEVELS[index]).collect()
}

#[test]
fn counts_are_the_programs_or_not_claimed() {
    let _alone = alone();
    let (mut claimed, mut attempted, mut plain, mut exact, mut told) = (0, 0, 0, 0, 0);
    let (mut looked_at, mut untold) = (0, Vec::new());
    let mut turn = 0;
    for (program, form) in PROGRAMS.iter().flat_map(|program| program.forms.iter().map(move |form| (program, form))) {
        for level in levels(form) {
            let mpi = Mpi::ALL[turn % Mpi::ALL.len()];
            let part = PARTS[(turn / 2) % PARTS.len()];
            turn += 1;
            let home = Home::new();
            let name = format!("{} form {} {level} {} at {part} %", program.source, form.number, mpi.name());
            let binary = compiled(&home, program, form, mpi, level);
            attempted += u64::from(form.is_plain);
            let (report, steps) = match attached(&home, &binary, mpi, (form.function, part)) {
                Ok(attached) => attached,
                Err(said) => {
                    println!("{name}: {said}");
                    continue;
                }
            };
            if !report.window.valid {
                println!("{name}: not valid: {:?}", report.warnings);
                continue;
            }
            let (is_claimed, is_exact) = check(&name, form, &report, &steps);
            looked_at += usize::from(form.is_seen.is_some());
            if form.is_seen.is_some() && !is_told_by_looks(form, &report) {
                untold.push(name);
            }
            told += u64::from(is_exact.is_some());
            exact += u64::from(is_exact == Some(true));
            plain += u64::from(form.is_plain);
            claimed += u64::from(form.is_plain && is_claimed);
        }
    }
    println!("{claimed} of {plain} claimed; {exact} of {told} as the clock says");
    assert!(exact * 3 >= told * 2, "{exact} of {told} are those of the time at which the window ended");
    assert!(plain * 10 >= attempted * 8, "{plain} of {attempted} windows are valid");
    assert!(claimed * 10 >= plain * 8, "{claimed} of {plain} plain loops are claimed");
    // On a machine that others disturb looks come too late now and then.
    assert!(untold.len() * 4 <= looked_at, "of {looked_at} loops looks do not tell {untold:?}");
}
