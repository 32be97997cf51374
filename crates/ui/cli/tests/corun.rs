//! `trimtab forecast corun` as it is typed: the tables of ScoPro's thesis from reports, predictions, partners, wrong questions, and
//! two specimens that share their processors.
//!
//! Next: docs/forecasts.md; `trimtab-corun` for the formulas and their laws.

mod common;
mod common_scopro;
mod common_turns;

use common::{Home, LIMIT, RANKS, alone, wait_until_at_work};
use common_scopro::{ITERATIONS, TABLE_6, TABLE_7, report};
use common_turns::turns;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use trimtab_specimens::{Launch, Mpi, Running};

/// Errors of table 6 are of slowdowns that were printed with two decimals, points.
const ROUNDING: f64 = 0.9;
/// Steps of the longer live job: it outlives its windows also where nobody else computes,
const STEPS: u32 = 6000;
/// and the rounds of each.
const ROUNDS: &str = "1500000";
/// Nobody is slower than this, whoever else is there.
const SLOWDOWN_MAX: f64 = 20.0;
/// A job's end is forecast to within this factor of the time that it still took: others may come to this machine meanwhile.
const FACTOR: f64 = 2.5;

/// The same with one rank that may run on these processors, with processor time and communication of each second.
fn profile(program: &str, processors: &str, (cpu, communication): (f64, f64)) -> Value {
    let mut made = report(program, 1, 0.1, 0, Some(100));
    made["nodes"] = json!([{
        "host": "n1", "seconds": 1.0, "processors": 2, "busy": null, "steal": null, "load": null, "pressure": null,
        "places": [{ "rank": 0, "cpus_allowed": processors, "cpus_seen": processors, "clock_mhz": null, "waited_s": 0.0 }],
        "neighbours": [], "neighbours_left_out": 0, "limits": [],
    }]);
    made["ranks"] = json!([{
        "rank": 0, "pid": 1, "host": "n1", "duration_s": 1.0, "communication_s": communication,
        "computation_s": 1.0 - communication, "cpu_s": cpu, "cpu_user_s": cpu, "cpu_system_s": 0.0, "iterations": 10,
        "time_per_iteration_s": 0.1, "iteration_times_s": [], "minor_faults": null, "major_faults": null,
        "voluntary_switches": null, "involuntary_switches": null, "group_s": [], "unattributed_bytes": null,
        "pause_insert_us": 0.0, "pause_remove_us": null, "probe_hits": 0,
    }]);
    made
}

/// Writes a report; its path.
fn kept(home: &Home, name: &str, report: &Value) -> String {
    let path = home.path(&format!("{name}.json"));
    std::fs::write(&path, report.to_string()).expect("it is written");
    path.to_str().expect("a path").to_owned()
}

fn corun(home: &Home, code: i32, words: &[&str]) -> Value {
    let all: Vec<&str> = ["forecast", "corun", "--json", "-"].into_iter().chain(words.iter().copied()).collect();
    let said = home.trimtab(&all);
    assert_eq!(said.code, code, "{words:?}: {said:?}");
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {said:?}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn tables_7a_and_7b_come_out_as_printed() {
    let home = Home::new();
    for (a, b, nodes, [ta1, _, tb, ta6, ta7, real]) in TABLE_7 {
        let row = format!("{a} with {b} on {nodes} nodes");
        // The slowdown that both printed columns imply, before it was rounded.
        let slowdown = ta7 / ta1;
        let each = |whole_s: f64| whole_s / ITERATIONS as f64;
        let together = kept(&home, a, &report(a, *nodes, each(ta1 * slowdown), 0, Some(ITERATIONS)));
        let alone = kept(&home, "alone", &report(a, *nodes, each(*ta1), 0, Some(ITERATIONS)));
        let other = kept(&home, b, &report(b, *nodes, each(*tb), 0, Some(ITERATIONS)));
        let words = [&together, &other, "--alone", &format!("A={alone}")];
        // How fast B was alone is not printed: its slowdown is not known, and all ends are.
        let found = corun(&home, 1, &words);
        let (of_a, of_b) = (&found["jobs"][0], &found["jobs"][1]);
        assert!((number(&of_a["slowdown"]["value"]) - slowdown).abs() < 1e-9, "{row}: {found}");
        assert!((number(&of_a["end_s"]["value"]) - ta6).abs() <= 0.07, "{row}: {found}");
        assert!((number(&of_a["end_if_all_stayed_s"]) - ta7).abs() < 1e-6, "{row}: {found}");
        assert!((number(&of_a["alone_end_s"]["value"]) - ta1).abs() < 1e-6, "{row}: {found}");
        assert!((number(&of_b["end_s"]["value"]) - tb).abs() < 1e-6, "{row}: {found}");
        assert_eq!((&of_a["place"], &of_b["place"]), (&2.into(), &1.into()), "{row}: {found}");
        assert!((number(&of_a["end_s"]["value"]) - real).abs() < 0.04 * real, "{row}: as near as the thesis came");
        assert!(of_b["slowdown"].is_null() && of_b["no_slowdown"].as_str().is_some_and(|why| why.contains("--alone")));
        assert_eq!(found["method"], "measured together", "{row}");
        let done = number(&of_a["done_at_first_end"]);
        assert!((done - tb / (ta1 * slowdown)).abs() < 1e-9, "formula 3, {row}: {found}");
    }
}

#[test]
fn errors_of_table_6_come_from_printed_slowdowns() {
    let home = Home::new();
    for (a, b, nodes, real, measured, error) in TABLE_6 {
        let row = format!("{a} beside {b} on {nodes} nodes");
        let slowdown = |factor: f64| {
            let of = |name: &str, each_s: f64| kept(&home, name, &report(a, *nodes, each_s, 0, Some(ITERATIONS)));
            let (together, alone) = (of("together", factor), of("alone", 1.0));
            let other = kept(&home, b, &report(b, *nodes, 1.0, 0, Some(ITERATIONS)));
            let (of_a, of_b) = (format!("A={alone}"), format!("B={other}"));
            let found = corun(&home, 0, &[&together, &other, "--alone", &of_a, "--alone", &of_b]);
            let found = &found["jobs"][0]["slowdown"];
            assert!(
                number(&found["lower"]) < number(&found["value"]) && number(&found["value"]) < number(&found["upper"])
            );
            number(&found["value"])
        };
        let percent = 100.0 * (slowdown(*measured) / slowdown(*real) - 1.0).abs();
        assert!((percent - error).abs() <= ROUNDING, "{row}: {percent}");
    }
}

#[test]
fn before_they_meet_processors_predict_it() {
    let home = Home::new();
    let a = kept(&home, "a", &profile("a", "0", (0.8, 0.1)));
    let b = kept(&home, "b", &profile("b", "0", (0.5, 0.0)));
    let c = kept(&home, "c", &profile("c", "1", (1.0, 0.0)));
    let found = corun(&home, 0, &[&a, &b, &c, "--offset", "5,0"]);
    let value = |job: usize, name: &str| number(&found["jobs"][job][name]["value"]);
    // Formula 2: busy 1.3, idle 0.7. The third is on another processor.
    assert!((value(0, "slowdown") - 1.3).abs() < 1e-6 && (value(1, "slowdown") - 1.3).abs() < 1e-6, "{found}");
    assert!((value(2, "slowdown") - 1.0).abs() < 1e-6 && (value(2, "end_s") - 10.0).abs() < 1e-6, "{found}");
    // 5 s alone, the rest together; then B has its own processor.
    assert!((value(0, "end_s") - 11.5).abs() < 1e-6 && (value(1, "end_s") - 16.5).abs() < 1e-6, "{found}");
    assert_eq!((&found["method"], &found["share_inside"]), (&"predicted from processors".into(), &Value::Null));
    assert!(found["not_modelled"].as_array().is_some_and(|list| list.len() == 4), "{found}");
    let page = home.trimtab(&["forecast", "corun", &a, &b, &c]);
    for words in ["takes 1.300 times as long", "not modelled", "begins anew; 100 to come", "last"] {
        assert!(page.stdout.contains(words), "{words}: {page:?}");
    }
    // Elsewhere they meet only where somebody says so.
    let mut far = profile("far", "0", (0.9, 0.0));
    far["job"]["hosts"] = json!(["n9"]);
    far["nodes"][0]["host"] = "n9".into();
    far["ranks"][0]["host"] = "n9".into();
    let far = kept(&home, "far", &far);
    let said = home.trimtab(&["forecast", "corun", &a, &far]);
    assert!(said.code == 2 && said.stderr.contains("--on"), "{said:?}");
    let found = corun(&home, 0, &[&a, &far, "--on", "n5"]);
    assert!((number(&found["jobs"][1]["slowdown"]["value"]) - 1.7).abs() < 1e-6, "{found}");
}

#[test]
fn the_better_partner_comes_first() {
    let home = Home::new();
    let there = kept(&home, "there", &profile("there", "0", (0.8, 0.2)));
    let of = |name: &str, cpu: f64, communication: f64| kept(&home, name, &profile(name, "0", (cpu, communication)));
    let (full, polls, little) = (of("full", 1.0, 0.0), of("polls", 1.0, 0.7), of("little", 0.2, 0.8));
    let found = corun(&home, 0, &[&there, "--with", &full, &polls, &little]);
    let names: Vec<&str> =
        found["partners"].as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!((names, &found["beside"]), (vec!["little", "polls", "full"], &json!(["there"])), "{found}");
    let page = home.trimtab(&["forecast", "corun", &there, "--with", &full, &polls, &little]);
    assert!(page.code == 0 && page.stdout.contains("1  little (little, 1 rank on n1)"), "{page:?}");
}

#[test]
fn what_is_not_known_is_null_and_said() {
    let home = Home::new();
    let a = kept(&home, "a", &report("a", 2, 0.2, 10, Some(90)));
    let alone = format!("A={}", kept(&home, "alone", &report("a", 2, 0.1, 0, Some(100))));
    let endless = kept(&home, "endless", &report("b", 2, 0.2, 10, None));
    let found = corun(&home, 1, &[&a, &endless, "--alone", &alone]);
    let (of_a, of_b) = (&found["jobs"][0], &found["jobs"][1]);
    assert!(of_a["end_s"].is_null() && of_a["no_end"].as_str().is_some_and(|why| why.contains("endless")), "{found}");
    assert!((number(&of_a["slowdown"]["value"]) - 2.0).abs() < 1e-9 && of_a["place"].is_null(), "{found}");
    assert!((number(&of_a["end_if_all_stayed_s"]) - 18.0).abs() < 1e-9, "{found}");
    assert!(of_b["iterations_remaining"].is_null() && of_b["end_if_all_stayed_s"].is_null(), "{found}");
    // A window whose ranks recorded different iterations, and one of another loop.
    let mut invalid = report("a", 2, 0.1, 0, Some(100));
    invalid["window"]["valid"] = false.into();
    let mut other = report("a", 2, 0.1, 0, Some(100));
    other["window"]["marker"] = "another".into();
    for (name, wrong, why) in [("invalid", invalid, "not valid"), ("other", other, "different loops")] {
        let alone = format!("{a}={}", kept(&home, name, &wrong));
        let found = corun(&home, 1, &[&a, &a, "--alone", &alone]);
        let said = &found["jobs"][0]["no_slowdown"];
        assert!(said.as_str().is_some_and(|said| said.contains(why)), "{name}: {found}");
    }
    // Without any use of processors nothing is predicted.
    let said = home.trimtab(&["forecast", "corun", &a, &a]);
    assert!(
        said.code == 2 && said.stderr.contains("does not say where rank") || said.stderr.contains("no rank"),
        "{said:?}"
    );
}

#[test]
fn wrong_questions_are_one_error() {
    let home = Home::new();
    let a = kept(&home, "a", &report("a", 2, 0.2, 10, Some(90)));
    let negative = kept(&home, "negative", &report("a", 2, -0.1, 0, Some(90)));
    let text = report("a", 2, 0.5, 0, Some(90)).to_string();
    let path = home.path("nan.json");
    std::fs::write(&path, text.replace("\"mean\":0.5", "\"mean\":NaN")).expect("it is written");
    let nan = path.to_str().expect("a path").to_owned();
    let letter_a = format!("A={a}");
    let missing = home.path("missing.json").to_str().expect("a path").to_owned();
    for (words, said) in [
        (vec![a.as_str()], "two jobs"),
        (vec![], "required"),
        (vec![&a, "nothing-7"], "no job called"),
        (vec![&a, &missing], "there is no file"),
        (vec![&a, "2147483647"], "no process"),
        (vec![&a, "slurm:x"], "x"),
        (vec![&a, &nan, "--alone", &letter_a], "is no report"),
        (vec![&a, &negative, "--alone", &letter_a], "negative, zero, infinite or no number"),
        (vec![&a, &a, "--alone", "C=x"], "letter from A to B"),
        (vec![&a, &a, "--alone", &letter_a, "--alone", &letter_a], "names two windows"),
        (vec![&a, &a, "--offset", "1,2"], "--offset"),
        (vec![&a, &a, "--offset", "-1"], "0 or more"),
        (vec![&a, &a, "--offset", "NaN"], "0 or more"),
        (vec![&a, &a, "--on", "n1"], "was on 2 nodes"),
        (vec![&a, &a, "--within", "0"], "above zero"),
    ] {
        let found = home.trimtab(&["forecast", "corun"].into_iter().chain(words.iter().copied()).collect::<Vec<_>>());
        assert_eq!(found.code, 2, "{words:?}: {found:?}");
        assert!(found.stderr.contains(said), "{words:?}: {found:?}");
    }
    // Windows of different times are not of jobs that ran together.
    let at = |name: &str, unix_s: f64| {
        let mut made = report("a", 2, 0.2, 10, Some(90));
        made["window"]["started_unix_s"] = unix_s.into();
        kept(&home, name, &made)
    };
    let (early, late) = (at("early", 1.0e9), at("late", 1.0e9 + 3600.0));
    let found = home.trimtab(&["forecast", "corun", &early, &late, "--alone", &letter_a]);
    assert!(found.code == 2 && found.stderr.contains("not of jobs that ran together"), "{found:?}");
}

fn started(program: &Path, steps: u32) -> Running {
    let launch = Launch::mpi(Mpi::Mpich, RANKS, program).args([steps.to_string(), ROUNDS.to_owned()]);
    wait_until_at_work(launch.start().expect("it starts"), true)
}

/// A job alone, and a window of it in the store: its name.
fn measured_alone(home: &Home, program: &Path, steps: u32) -> (Running, String) {
    let job = started(program, steps);
    let (code, report) = home.attach(job.pid(), "--at-least 0.5").expect("a window");
    assert_eq!((code, report.window.valid), (0, true), "{:?}", report.warnings);
    (job, format!("{}/{}", report.job.id, report.window.number))
}

#[test]
fn two_jobs_that_share_processors_are_measured_and_their_ends_forecast() {
    let _alone = alone();
    let home = Home::new();
    let program = turns(&home);
    // The shorter one was seen alone in an earlier run.
    let (earlier, short_alone) = measured_alone(&home, &program, STEPS / 2);
    drop(earlier);
    let (a, long_alone) = measured_alone(&home, &program, STEPS);
    let b = started(&program, STEPS / 2);
    let pids = [a.pid().to_string(), b.pid().to_string()];
    let named = [format!("A={long_alone}"), format!("B={short_alone}")];
    let words = [&pids[0], &pids[1], "--within", "2", "--alone", &named[0], "--alone", &named[1]];
    let found = corun(&home, 0, &words);
    let begun = Instant::now();
    assert_eq!((&found["method"], &found["share_inside"]), (&"measured together".into(), &0.9.into()), "{found}");
    let (waited_b, waited_a) = std::thread::scope(|scope| {
        let other = scope.spawn(|| (b.wait(LIMIT), begun.elapsed().as_secs_f64()));
        let own = (a.wait(LIMIT), begun.elapsed().as_secs_f64());
        (other.join().expect("it is waited for"), own)
    });
    for (job, (ended, took)) in found["jobs"].as_array().expect("a list").iter().zip([waited_a, waited_b]) {
        let ended = ended.expect("it ends");
        assert!(ended.status.success() && ended.stdout.contains("end"), "{ended:?}");
        // Twice as many ranks as processors: nobody is as fast as alone, whoever else is there.
        let slowdown = number(&job["slowdown"]["value"]);
        assert!(slowdown > 1.05 && slowdown < SLOWDOWN_MAX, "{found}");
        let end = number(&job["end_s"]["value"]);
        println!("slowdown {slowdown:.3}, end forecast in {end:.2} s, came after {took:.2} s");
        assert!(end < FACTOR * took && end > took / FACTOR, "{took}: {found}");
        assert!(end <= number(&job["end_if_all_stayed_s"]) + 1e-9, "{found}");
    }
    let judged: Value = serde_json::from_str(&home.trimtab(&["backtest", "--json", "-"]).stdout).expect("JSON");
    let forecasts = judged["forecasts"].as_array().expect("a list");
    assert!(forecasts.len() == 2 && forecasts.iter().all(|one| one["method"] == "jobs together"), "{judged}");
    let said = home.trimtab(&["model", "pairs", "--json", "-"]);
    let table: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let known = table["beside"].as_array().expect("a list").iter().filter(|row| row["slowdown"].is_object()).count();
    assert!(said.code == 0 && known == 2 && number(&table["pairs"][0]["progress"]) > 0.3, "{table}");
    let page = home.trimtab(&["model", "pairs"]);
    assert!(page.code == 0 && page.stdout.contains("beside turns (2 ranks): "), "{page:?}");
    // The same two are to meet again: windows alone are named in the store, which knows how they got on.
    let page = home.trimtab(&["forecast", "corun", &long_alone, &short_alone]);
    assert!(page.code == 0 && page.stdout.contains("measured when they met before"), "{page:?}");
    let again = corun(&home, 0, &[&long_alone, &short_alone]);
    for (before, now) in
        found["jobs"].as_array().into_iter().flatten().zip(again["jobs"].as_array().into_iter().flatten())
    {
        assert_eq!(
            (&now["slowdown"]["value"], &now["met_windows"]),
            (&before["slowdown"]["value"], &json!(1)),
            "{again}"
        );
    }
    // With one that it never met, and on a node of which no window is, processors say it.
    for words in [vec![&long_alone[..], &long_alone], vec![&long_alone, &short_alone, "--on", "n9"]] {
        let page = home.trimtab(&[vec!["forecast", "corun"], words].concat());
        assert!(page.code == 0 && page.stdout.contains("predicted from processors"), "{page:?}");
    }
}
