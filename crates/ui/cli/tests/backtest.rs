//! `trimtab backtest` as it is typed: a series or a log of jobs in a file, what is printed, and what is wrong with them.
//!
//! Next: docs/forecasts.md, `trimtab-weather` for the forecasters, `trimtab-history` for jobs.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Values: five days of a wave with noise and spikes, and a step in the middle.
fn series() -> String {
    let mut text = "timestamp,value\n".to_owned();
    let mut noise = 1_u64;
    for at in 0..1440_u32 {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (noise >> 33) as f64 / f64::from(u32::MAX >> 1);
        let wave = (f64::from(at % 288) / 288.0 * std::f64::consts::TAU).sin();
        let spike = if at % 97 == 0 { 50.0 } else { 0.0 };
        let step = if at > 700 { 20.0 } else { 0.0 };
        let _ = writeln!(text, "{},{}", 1_392_388_200 + 300 * at, 30.0 + 10.0 * wave + 2.0 * unit + spike + step);
    }
    text
}

fn backtest(text: &str, options: &[&str]) -> Output {
    backtest_of("--series", text, options)
}

fn backtest_of(what: &str, text: &str, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.args(["backtest", what, "-"]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("trimtab runs");
    // A command that refuses its options ends without reading.
    let written = child.stdin.take().expect("a pipe").write_all(text.as_bytes());
    assert!(written.is_ok() || written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe));
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_series_is_forecast_and_judged() {
    let said = backtest(&series(), &["--from", "half", "--json", "-"]);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let found: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(
        (&found["values"], &found["judged"], &found["day"]),
        (&1440.into(), &720.into(), &288.into()),
        "{found}"
    );
    let number = |value: &Value| value.as_f64().expect("a number");
    let singles = found["forecasters"].as_array().expect("a list");
    let errors: Vec<f64> = singles.iter().map(|single| number(&single["error_mean"])).collect();
    assert!(errors.is_sorted() && errors.len() == 27, "{errors:?}");
    let ratio = number(&found["mixture"]["error_mean"]) / errors[0];
    assert!((ratio - number(&found["mixture_over_best"])).abs() < 1e-9 && ratio < 1.05, "{ratio}");
    let share = number(&found["interval"]["share"]);
    assert!((0.88..=0.92).contains(&share), "{share}");

    let page = backtest(&series(), &["--from", "50%"]);
    let text = String::from_utf8_lossy(&page.stdout).into_owned();
    for words in ["1440 values, 300 s apart; 720 judged", "published rule", "the best in hindsight", "intervals of 90%"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn what_is_wrong_with_a_series_is_said_with_its_line() {
    for (text, options, code, words) in [
        ("1,2\n2,3\n3,x\n", vec![], 2, "line 3: `x` is no finite number"),
        ("1,2\n0.5,3\n", vec![], 2, "line 2: its time is 1 s before"),
        ("", vec![], 2, "the series has no value"),
        ("1,2\n2,3\n", vec!["--from", "1.5"], 2, "give `half`, or a share"),
        ("1,2\n", vec![], 1, ""),
    ] {
        let said = backtest(text, &options);
        assert_eq!(said.status.code(), Some(code), "{text}: {said:?}");
        assert!(String::from_utf8_lossy(&said.stderr).contains(words), "{text}: {said:?}");
    }
}

/// A job of the log.
struct Job {
    submit_s: u32,
    wait_s: u32,
    run_s: u32,
    user: u32,
    ranks: u32,
}

/// The request of each, seconds.
const REQUESTED_S: u32 = 40_000;
/// The first submission, 2014-02-14 14:30:00.
const BEGIN_S: u32 = 1_392_388_200;

/// Jobs of six users with three programs each, which grow; a tenth fail at once.
fn jobs() -> Vec<Job> {
    let mut noise = 1_u64;
    let mut below = |most: u64| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((noise >> 33) % most) as u32
    };
    let one = |at: u32| {
        let (user, program) = (below(6), below(3));
        let usual_s = 50 * (1 + user) * [1, 7, 30][program as usize] * (1 + at / 300);
        let run_s = if below(10) == 0 { 2 } else { usual_s * (90 + below(20)) / 100 };
        Job { submit_s: BEGIN_S + 900 * at, wait_s: below(500), run_s, user, ranks: 1 << program }
    };
    (0..900).map(one).collect()
}

fn as_swf(jobs: &[Job]) -> String {
    let line = |job: &Job| {
        let Job { submit_s, wait_s, run_s, user, ranks } = job;
        format!("1 {submit_s} {wait_s} {run_s} {ranks} -1 -1 {ranks} {REQUESTED_S} -1 1 {user} -1 -1 -1 -1 -1 -1\n")
    };
    format!("; Version: 2.2\n{}", jobs.iter().map(line).collect::<String>())
}

/// A moment as Slurm writes it; all are within two weeks of the first.
fn date(s: u32) -> String {
    let day_s = s - (BEGIN_S - 52_200);
    format!("2014-02-{:02}T{:02}:{:02}:{:02}", 14 + day_s / 86_400, day_s / 3600 % 24, day_s / 60 % 60, day_s % 60)
}

fn as_sacct(jobs: &[Job]) -> String {
    let mut text = "JobID|User|NCPUS|Submit|Start|End|Elapsed|Timelimit|State\n".to_owned();
    for Job { submit_s, wait_s, run_s, user, ranks } in jobs {
        let (start, end) = (submit_s + wait_s, submit_s + wait_s + run_s);
        let elapsed = format!("{}-{:02}:{:02}:{:02}", run_s / 86_400, run_s / 3600 % 24, run_s / 60 % 60, run_s % 60);
        let dates = [*submit_s, start, end].map(date).join("|");
        let _ = writeln!(text, "7|user{user}|{ranks}|{dates}|{elapsed}|11:06:40|COMPLETED");
        let _ = writeln!(text, "7.batch||{ranks}|{dates}|{elapsed}||COMPLETED");
    }
    text
}

fn as_csv(jobs: &[Job]) -> String {
    let mut text = "user,processors_req,wallclock_req,submit_time,start_time,end_time,run_time\n".to_owned();
    for Job { submit_s, wait_s, run_s, user, ranks } in jobs {
        let (start, end) = (submit_s + wait_s, submit_s + wait_s + run_s);
        let _ = writeln!(text, "u{user},{ranks},{REQUESTED_S}.0,{submit_s},{start},{end},{run_s}");
    }
    text
}

#[test]
fn a_log_is_the_same_in_each_format_and_history_is_better_than_simple_rules() {
    let jobs = jobs();
    let found = |text: &str| -> Value {
        let said = backtest_of("--jobs", text, &["--json", "-"]);
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        serde_json::from_slice(&said.stdout).expect("JSON")
    };
    let swf = found(&as_swf(&jobs));
    assert_eq!(
        (&swf["format"], &swf["jobs"], &swf["judged"], &swf["requested"]),
        (&"swf".into(), &900.into(), &900.into(), &900.into())
    );
    let number = |value: &Value| value.as_f64().expect("a number");
    assert!(number(&swf["history"]["accuracy"]) > 0.6, "{swf}");
    assert!(number(&swf["over_last_two_points"]) > 5.0 && number(&swf["over_best_rule_points"]) > 0.0, "{swf}");
    let share = number(&swf["interval"]["share"]);
    assert!((0.87..=0.95).contains(&share), "{share}");
    assert!(number(&swf["limit"]["share"]) > 0.95, "{swf}");
    // Waits are evenly spread here: the median is off by a quarter of the spread.
    let waits = &swf["waits"];
    assert!((90.0..160.0).contains(&number(&waits["error_median_s"])), "{waits}");
    assert!((0.86..=0.94).contains(&number(&waits["share"])), "{waits}");

    for (text, format, parts) in [(as_sacct(&jobs), "sacct", 900), (as_csv(&jobs), "csv", 0)] {
        let mut same = found(&text);
        assert_eq!((&same["format"], &same["left_out"]["parts"]), (&format.into(), &parts.into()));
        same["format"] = swf["format"].clone();
        same["left_out"] = swf["left_out"].clone();
        assert_eq!(same, swf, "{format}");
    }
}

#[test]
fn the_page_says_what_was_judged_and_what_was_left_out() {
    let mut text = as_swf(&jobs());
    text += "1 5 2 -1 4 -1 -1 4 600 -1 5 3 -1 -1 -1 -1 -1 -1\n1 5 2 60 4 -1 -1 4 600 -1 1 3 -1 -1 -1 -1 -1 -1\n";
    let page = backtest_of("--jobs", &text, &["--from", "half"]);
    assert_eq!(page.status.code(), Some(0), "{page:?}");
    let text = String::from_utf8_lossy(&page.stdout).into_owned();
    for words in [
        "901 jobs (Standard Workload Format), 901 with a requested time; 451 judged",
        "left out: 1 that never ran",
        "1 stood behind a job submitted later",
        "mean of last two of same user",
        "points better than the mean of the last two",
        "intervals of 90%",
        "limits of 99%",
        "waits: median error",
        "the same user, ranks and request",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn what_is_wrong_with_a_log_is_said_with_its_line() {
    let good = "1 5 2 60 4 -1 -1 4 600 -1 1 3 -1 -1 -1 -1 -1 -1\n";
    let negative = format!("{good}{}", good.replace(" 60 ", " -60 "));
    for (text, options, code, words) in [
        (negative.as_str(), vec![], 2, "line 2: the run time `-60` is negative"),
        (&negative, vec!["--leave-out-wrong"], 0, ""),
        (&format!("{good}2 3"), vec![], 2, "line 2: it has 2 columns, not 18"),
        ("; nothing\n", vec![], 2, "the log has no job that ran or waits"),
        ("user,submit\n1,2\n", vec![], 2, "line 1: there is no column with the run time"),
        ("submit,start,elapsed\n9000,1,5\n", vec![], 2, "line 2: the job began 8999 s before its submission"),
        (good, vec!["--series", "x"], 2, "cannot be used with"),
        (&good.replace(" 600 ", " -1 "), vec![], 1, ""),
    ] {
        let said = backtest_of("--jobs", text, &options);
        assert_eq!(said.status.code(), Some(code), "{text}: {said:?}");
        assert!(String::from_utf8_lossy(&said.stderr).contains(words), "{text}: {said:?}");
    }
}

/// Jobs of two partitions: those of `short` wait seconds, those of `long` minutes; two wait and one runs.
fn accounts(begin_s: u64) -> String {
    let mut text = "JobID|User|Partition|QOS|NNodes|Submit|Start|End|Elapsed|Timelimit|State\n".to_owned();
    let mut line = |at: u64, partition: &str, times: String| {
        let _ = writeln!(text, "{at}|anna|{partition}|normal|2|{times}");
    };
    for at in 0..300_u64 {
        let (partition, wait_s) = if at % 2 == 0 { ("short", 5 + at % 7) } else { ("long", 600 + 10 * (at % 31)) };
        let submit_s = begin_s + 400 * at;
        let start_s = submit_s + wait_s;
        line(at, partition, format!("{submit_s}|{start_s}|{}|00:01:00|01:00:00|COMPLETED", start_s + 60));
    }
    let submit_s = begin_s + 120_000;
    line(300, "long", format!("{submit_s}|{}|Unknown|00:01:00|01:00:00|RUNNING", submit_s + 700));
    line(301, "long", format!("{submit_s}|Unknown|Unknown|00:00:00|01:00:00|PENDING"));
    text
}

/// A folder with a program each of these names, which prints a text or fails with it.
fn slurm_that_says(folder: &Path, programs: &[(&str, Result<&str, &str>)]) {
    for (name, said) in programs {
        let (text, print, code) = match said {
            Ok(text) => (text, "cat", 0),
            Err(text) => (text, "cat >&2", 1),
        };
        let program = folder.join(name);
        let script = format!("#!/bin/sh\n{print} <<'END'\n{text}\nEND\nexit {code}\n");
        std::fs::write(&program, script).expect("it is written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it runs");
    }
}

fn queue(path: Option<&Path>, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.args(["forecast", "queue"]).args(options).env("USER", "anna");
    if let Some(path) = path {
        let inherited = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{inherited}", path.display()));
    }
    command.output().expect("trimtab runs")
}

#[test]
fn a_wait_in_the_queue_is_forecast_from_the_sites_past() {
    let folder = tempfile::tempdir().expect("a folder");
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs();
    let partitions = "PartitionName=long Default=NO\nPartitionName=short Default=YES";
    let accounts = accounts(now_s - 121_000);
    slurm_that_says(folder.path(), &[("sacct", Ok(&accounts)), ("scontrol", Ok(partitions))]);
    let asked = ["--nodes", "2", "--time", "1h", "--json", "-"];
    for (partition, inside_s) in [(None, 5.0..12.0), (Some("long"), 600.0..911.0)] {
        let options: Vec<&str> =
            asked.into_iter().chain(partition.into_iter().flat_map(|name| ["--partition", name])).collect();
        let said = queue(Some(folder.path()), &options);
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        let found: Value = serde_json::from_slice(&said.stdout).expect("JSON");
        let number = |name: &str| found[name].as_f64().unwrap_or_else(|| panic!("{name}: {found}"));
        assert!(inside_s.contains(&number("wait_s")), "{found}");
        assert!(number("lower_s") <= number("wait_s") && number("wait_s") <= number("upper_s"), "{found}");
        assert_eq!((&found["waiting"], &found["begun"], &found["user_known"]), (&1.into(), &301.into(), &true.into()));
        assert!(found["judged"]["share"].as_f64().is_some_and(|share| share > 0.8), "{found}");
    }
    let page = queue(Some(folder.path()), &["--nodes", "2", "--time", "1h", "--partition", "long"]);
    let text = String::from_utf8_lossy(&page.stdout).into_owned();
    for words in ["2 nodes for 60.0 min in long (normal), if submitted now: begins in", "1 wait now; 301 have begun"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_wait_that_nothing_tells_of_is_not_claimed_and_wrong_questions_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let disabled = "Slurm accounting storage is disabled";
    slurm_that_says(folder.path(), &[("sacct", Err(disabled))]);
    let (swf, old) = (folder.path().join("log.swf"), folder.path().join("old"));
    std::fs::write(&swf, as_swf(&jobs())).expect("it is written");
    std::fs::create_dir(&old).expect("a folder");
    slurm_that_says(&old, &[("sacct", Ok(&accounts(1_700_000_000))), ("scontrol", Err("no"))]);
    let log = swf.display().to_string();
    let nodes = ["--nodes", "2", "--time", "1h"];
    let of_log = ["--time", "1h", "--jobs", &log];
    for (path, words, code, said) in [
        (folder.path(), nodes.to_vec(), 2, disabled),
        (&old, nodes.to_vec(), 2, "one of long, short"),
        (
            &old,
            [&nodes[..], &["--partition", "none"]].concat(),
            2,
            "no job was in the partition none; there are long, short",
        ),
        (&old, [&nodes[..], &["--partition", "long", "--user", "nobody"]].concat(), 2, "no job is nobody's"),
        (&old, [&nodes[..], &["--partition", "long"]].concat(), 1, "no claim: the latest job began"),
        (folder.path(), [&of_log[..], &["--nodes", "2"]].concat(), 2, "counts processors: say how many (--processors,"),
        (folder.path(), [&of_log[..], &["--processors", "4", "--user", "3"]].concat(), 0, "4 processors for 60.0 min"),
        (folder.path(), vec!["--nodes", "2", "--time", "60"], 2, "give a time with its unit"),
        (folder.path(), vec!["--time", "1h"], 2, "--nodes"),
    ] {
        let output = queue(Some(path), &words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(said), "{words:?}: {text}");
    }
}
