//! `trimtab forecast job`: the end of a program that knows its own, its interval, what came of it, and what is not claimed.
//!
//! Next: docs/forecasts.md; `trimtab-progress` for simulated runs, where errors have bars.

mod common;

use common::{Home, LIMIT, RANKS, alone};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use trimtab_specimens::{Launch, Mpi, Running, TextSnapshot};

const STEPS: u64 = 2600;
/// A busy machine makes steps longer, now and not later: a forecast whose interval does not hold is off by less than this share
/// of the run.
const ERROR_MAX: f64 = 0.5;

fn compiled(home: &Home, mpi: Mpi) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forecast/steps.c");
    let output = home.path(&format!("steps-{}", mpi.name()));
    let mut compiler = Command::new(format!("mpicc.{}", mpi.name()));
    compiler.args(["-g", "-O1", "-fno-inline-functions-called-once", "-Wl,--build-id", "-o"]).arg(&output).arg(&source);
    let compiled = compiler.current_dir(home.path("")).output().expect("the compiler runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    output
}

fn steps_of(job: &mut Running) -> u64 {
    let printed = job.stdout();
    printed.lines().filter_map(|line| line.strip_prefix("step ")?.parse().ok()).next_back().unwrap_or(0)
}

/// A job that has done some steps.
fn started(program: &Path, mpi: Mpi, done: u64) -> Running {
    let mut job = Launch::mpi(mpi, RANKS, program).args([STEPS.to_string()]).start().expect("it starts");
    let deadline = Instant::now() + LIMIT;
    while steps_of(&mut job) < done {
        assert!(Instant::now() < deadline, "it does not work: {}", job.stderr());
        std::thread::sleep(Duration::from_millis(5));
    }
    job
}

fn json(home: &Home, code: i32, words: &[&str]) -> Value {
    let said = home.trimtab(words);
    assert_eq!(said.code, code, "{words:?}: {said:?}");
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {said:?}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Checks one forecast beside the steps that were printed before and after it.
fn check(found: &Value, (before, after): (u64, u64)) {
    let done = found["iterations_done"].as_u64().expect("done");
    assert!((before.saturating_sub(1)..=after + 10).contains(&done), "{before} to {after}: {found}");
    assert_eq!(found["iterations_total"], Value::from(STEPS), "{found}");
    assert!((number(&found["share_done"]) - done as f64 / STEPS as f64).abs() < 1e-9, "{found}");
    let end = &found["end"];
    let [lower, middle, upper, late] = ["lower_s", "remaining_s", "upper_s", "late_s"].map(|name| number(&end[name]));
    assert!(lower <= middle && middle <= upper && upper <= late && lower > 0.0, "{found}");
    assert_eq!((&end["of"], &found["no_claim"]), (&Value::from("main loop"), &Value::Null), "{found}");
    assert!(found["because"].as_array().is_some_and(|lines| lines.len() >= 2), "{found}");
}

#[test]
fn the_end_of_a_job_is_forecast_and_judged() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let home = Home::new();
        let program = compiled(&home, mpi);
        let mut job = started(&program, mpi, STEPS / 10);
        let pids = job.rank_pids(LIMIT).expect("ranks");
        let texts: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text")).collect();
        let pid = job.pid().to_string();
        let before = steps_of(&mut job);
        let first = json(&home, 0, &["forecast", "job", &pid, "--within", "3", "--json", "-"]);
        check(&first, (before, steps_of(&mut job)));
        assert_eq!((&first["end"]["method"], &first["earlier_runs"]), (&"iterations".into(), &0.into()), "{first}");
        for text in &texts {
            assert_eq!(text.difference_now().expect("its text"), None, "{mpi:?}: text is as before");
        }
        // By its name in the store, from the window that is there, and until it has ended.
        let name = first["job"].as_str().expect("a name").to_owned();
        let words = ["forecast", "job", &name, "--newest", "600", "--until-end", "--json", "-"];
        let second = json(&home, 0, &words);
        assert_eq!((&second["windows"], &second["job"]), (&first["windows"], &first["job"]), "no window was measured");
        let finished = job.wait(LIMIT).expect("it ends");
        assert!(finished.status.success(), "{finished:?}");
        judged(&home, &finished.stdout, &[first, second]);
        if mpi == Mpi::Mpich {
            an_earlier_run_is_known(&home, &program, mpi);
        }
    }
}

/// `backtest` has both forecasts beside the end that the program printed.
fn judged(home: &Home, printed: &str, forecasts: &[Value]) {
    let end: f64 = printed.lines().find_map(|line| line.strip_prefix("end ")?.parse().ok()).expect("its own end");
    let found = json(home, 0, &["backtest", "--json", "-"]);
    let all = found["forecasts"].as_array().expect("a list");
    assert_eq!(all.len(), forecasts.len(), "{found}");
    for (one, forecast) in all.iter().zip(forecasts) {
        let [after, before] = ["ended_after_unix_s", "ended_before_unix_s"].map(|name| number(&one[name]));
        assert!(after - 1.0 < end && end < before && before - after < 2.0, "{end}: {one}");
        assert!((number(&one["end_unix_s"]) - number(&forecast["end"]["unix_s"])).abs() < 1e-6, "{one}");
        assert!(one["held"] == true || number(&one["error"]).abs() < ERROR_MAX, "{one}");
    }
    let method = &found["methods"][0];
    assert_eq!((&method["method"], &method["judged"]), (&"iterations".into(), &2.into()), "{found}");
    let page = home.trimtab(&["backtest"]);
    assert!(page.stdout.contains("iterations: 2 judged") && page.stdout.contains("of the run"), "{page:?}");
}

fn an_earlier_run_is_known(home: &Home, program: &Path, mpi: Mpi) {
    let job = started(program, mpi, STEPS / 2);
    let pid = job.pid().to_string();
    let found = json(home, 0, &["forecast", "job", &pid, "--within", "2", "--json", "-"]);
    assert_eq!(found["earlier_runs"], Value::from(1), "{found}");
    assert!(found["end"]["method"].as_str().is_some_and(|method| method.contains("history")), "{found}");
    let page = home.trimtab(&["forecast", "job", &pid, "--newest", "600"]);
    assert!(page.stdout.contains("iterations done (") && page.stdout.contains("1 earlier run took"), "{page:?}");
}

#[test]
fn bad_input_is_one_error() {
    let home = Home::new();
    for (words, code, said) in [
        (&["forecast", "job", "2147483647"][..], 2, "no process"),
        (&["forecast", "job", "nothing-1"], 2, "no job called"),
        (&["forecast", "job"], 2, "required"),
        (&["forecast", "job", "1", "--within", "-1"], 2, "must be above zero"),
        (&["backtest"], 1, ""),
        (&["backtest", "--from", "half"], 2, "--series"),
    ] {
        let found = home.trimtab(words);
        assert_eq!(found.code, code, "{words:?}: {found:?}");
        assert!(found.stderr.contains(said), "{words:?}: {found:?}");
    }
    assert!(home.trimtab(&["backtest"]).stdout.contains("no forecast has been made yet"));
}
