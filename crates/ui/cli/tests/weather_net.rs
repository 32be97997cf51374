//! Links of known bandwidth between nodes that are namespaces: what `trimtab weather --to` says of them, and what is forecast
//! from that, beside the time that a transfer by somebody else's program then takes.
//!
//! Next: docs/weather.md and docs/forecasts.md; `plan.rs` for forecasts without nodes.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use trimtab_specimens::skip;
use trimtab_testbed::Testbed;

/// Bytes of the transfer that is the truth.
const BYTES: u64 = 3_000_000;

/// A process that ends with its guard.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn lines(child: &mut Child) -> std::io::Lines<BufReader<std::process::ChildStdout>> {
    BufReader::new(child.stdout.take().expect("a pipe")).lines()
}

fn limit(testbed: &Testbed, node: usize, rate: Option<&str>) {
    let mut tc = testbed.on(node, "tc");
    match rate {
        Some(rate) => tc.args("qdisc replace dev eth0 root tbf latency 50ms burst 128kb rate".split(' ')).arg(rate),
        None => tc.args("qdisc del dev eth0 root".split(' ')),
    };
    let output = tc.output().expect("tc runs");
    assert!(output.status.success(), "{rate:?}: {output:?}");
}

/// Seconds that BYTES take from the first node to the second, until all have arrived there.
fn transfer_s(testbed: &Testbed) -> f64 {
    let take =
        "import socket\ns=socket.socket()\ns.bind(('0.0.0.0',0))\ns.listen()\nprint(s.getsockname()[1],flush=True)\n\
                c,_=s.accept()\nn=0\nwhile n<COUNT: n+=len(c.recv(65536))\nc.sendall(b'x')\n"
            .replace("COUNT", &BYTES.to_string());
    let mut receiver = testbed.on(2, "python3");
    let mut receiver = Guarded(receiver.args(["-c", &take]).stdout(Stdio::piped()).spawn().expect("python3"));
    let port = lines(&mut receiver.0).next().expect("a line").expect("text");
    let give =
        "import socket,sys,time\nt=time.monotonic()\nc=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n\
                c.sendall(bytes(COUNT))\nc.recv(1)\nprint(time.monotonic()-t)\n"
            .replace("COUNT", &BYTES.to_string());
    let output = testbed.on(1, "python3").args(["-c", &give, &testbed.address(2), &port]).output().expect("python3");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or_else(|_| panic!("no time: {output:?}"))
}

fn weather(testbed: &Testbed, folder: &Path, to: &str) -> Value {
    let mut command = testbed.on(1, env!("CARGO_BIN_EXE_trimtab"));
    command.args(["weather", "--to", to, "--json", "-", "--no-probe", "--secret"]).arg(folder.join("secret"));
    let output = command.arg("--store").arg(folder.join("trimtab.db")).output().expect("trimtab runs");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Somebody on the second node answers those who ask for the network; the address, with the secret in a file of the folder.
fn answering(testbed: &Testbed, folder: &Path) -> (Guarded, String) {
    let mut answering = testbed.on(2, env!("CARGO_BIN_EXE_trimtab"));
    answering.args(["weather", "--answer"]).stdout(Stdio::piped());
    let mut answering = Guarded(answering.spawn().expect("trimtab runs"));
    let mut said = lines(&mut answering.0);
    let mut word = |before: &str| {
        let line = said.next().expect("a line").expect("text");
        line.strip_prefix(before).unwrap_or_else(|| panic!("{line}")).to_owned()
    };
    let port = word("answering at 0.0.0.0:");
    std::fs::write(folder.join("secret"), word("secret ")).expect("a file");
    let to = format!("{}:{port}", testbed.address(2));
    (answering, to)
}

#[test]
fn limited_links_are_measured_as_they_are() {
    if let Some(lack) = Testbed::lack() {
        skip("limited_links_are_measured_as_they_are", &lack.0);
        return;
    }
    let made = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = made.path();
    let testbed = Testbed::up(folder, 2).expect("nodes");
    let (_answering, to) = answering(&testbed, folder);
    for (name, rate, bytes_per_s) in [("10 Mbit/s", Some("10mbit"), 1.25e6), ("100 Mbit/s", Some("100mbit"), 12.5e6)] {
        limit(&testbed, 1, rate);
        // Both the probe and the transfer wait for processors that others use, too: three tries.
        let mut tries = Vec::new();
        for _ in 0..3 {
            let found = weather(&testbed, folder, &to);
            let value = |key: &str| found["figures"][key]["value"].as_f64().expect("a number");
            let (latency_s, bandwidth) = (value("latency_s"), value("bandwidth_bytes_per_s"));
            let (expected_s, took_s) = (latency_s + BYTES as f64 / bandwidth, transfer_s(&testbed));
            let spent = found["net"]["bytes"].as_u64().expect("a number");
            println!(
                "{name}: {bandwidth:.0} bytes/s ({:.3} of the limit), {:.1} us, {spent} bytes spent; {BYTES} bytes: \
                 {expected_s:.3} s expected, {took_s:.3} s taken",
                bandwidth / bytes_per_s,
                1e6 * latency_s
            );
            assert!(spent <= 8 << 20, "{found}");
            tries.push((bandwidth / bytes_per_s, expected_s / took_s));
            if is_near(tries[tries.len() - 1]) {
                break;
            }
        }
        assert!(tries.iter().any(|one| is_near(*one)), "{name}: {tries:?}");
    }
    limit(&testbed, 1, None);
    let found = weather(&testbed, folder, &to);
    let bandwidth = found["figures"]["bandwidth_bytes_per_s"]["value"].as_f64().expect("a number");
    println!(
        "no limit: {bandwidth:.0} bytes/s, {} us",
        found["figures"]["latency_s"]["value"].as_f64().expect("a number") * 1e6
    );
    assert!(bandwidth > 25e6, "twice the limited one at least: {found}");
}

/// The limit is that of frames, of whose bytes 4% are headers; the transfer has its part of the bucket, which lets 128 kB
/// through at once.
fn is_near((of_limit, of_time): (f64, f64)) -> bool {
    (0.9..=1.0).contains(&of_limit) && (0.93..=1.1).contains(&of_time)
}

/// Forecasts from the weather of the first node in a file; the node's name stands in it.
fn forecast(testbed: &Testbed, folder: &Path, weather: &Value, words: &[&str]) -> Value {
    let file = folder.join("weather.json");
    std::fs::write(&file, weather.to_string()).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.arg("forecast").args(words).arg("--weather").arg(file).args(["--json", "-", "--alias"]);
    command.arg(format!("second={}", testbed.address(2))).arg("--store").arg(folder.join("forecasts.db"));
    let output = command.output().expect("trimtab runs");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The data here and the work, or the work there, where it takes a quarter of the time.
fn plan(folder: &Path, here: &str) -> String {
    let seconds = |value: f64| json!({ "value": value, "lower": 0.95 * value, "upper": 1.05 * value });
    let step = |host: &str, value: f64| json!({ "run": "work", "on": host, "takes": ["A"], "seconds": seconds(value) });
    let plan = json!({
        "version": 1,
        "data": { "A": format!("bytes:{BYTES}@{here}") },
        "alternatives": [
            { "name": "here", "steps": [step(here, 1.2)] },
            { "name": "there", "steps": [step("second", 0.3)] },
        ],
    });
    let file = folder.join("plan.json");
    std::fs::write(&file, plan.to_string()).expect("a file");
    file.display().to_string()
}

#[test]
fn a_plan_chooses_by_links_and_transfers_take_as_long_as_forecast() {
    if let Some(lack) = Testbed::lack() {
        skip("a_plan_chooses_by_links_and_transfers_take_as_long_as_forecast", &lack.0);
        return;
    }
    let made = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = made.path();
    let testbed = Testbed::up(folder, 2).expect("nodes");
    let (_answering, to) = answering(&testbed, folder);
    for (rate, expected) in [("10mbit", "here"), ("100mbit", "there")] {
        limit(&testbed, 1, Some(rate));
        // Both the probe and the transfer wait for processors that others use, too: three tries.
        let mut tries = Vec::new();
        for _ in 0..3 {
            let mut found = weather(&testbed, folder, &to);
            // Others' load on this machine is not what is asked.
            found["figures"].as_object_mut().expect("figures").remove("cpu_share");
            let here = found["host"].as_str().expect("a name").to_owned();
            let planned = forecast(&testbed, folder, &found, &["plan", &plan(folder, &here)]);
            let chosen = planned["chosen"].as_u64().expect("a choice") as usize;
            assert_eq!(planned["alternatives"][chosen]["name"], expected, "{rate}: {planned}");
            assert_eq!(planned["is_choice_sure"], true, "{planned}");
            let data = format!("A=bytes:{BYTES}@{here}");
            let comm = forecast(&testbed, folder, &found, &["comm", "--data", &data, "--to", "second"]);
            let value = |key: &str| comm[key].as_f64().expect("a number");
            let (lower_s, upper_s, took_s) = (value("lower"), value("upper"), transfer_s(&testbed));
            println!("{rate}: {:.3} s ({lower_s:.3} to {upper_s:.3}) forecast, {took_s:.3} s taken", value("value"));
            tries.push((lower_s, took_s, upper_s));
            if (lower_s..=upper_s).contains(&took_s) {
                break;
            }
        }
        assert!(
            tries.iter().any(|(lower_s, took_s, upper_s)| (lower_s..=upper_s).contains(&took_s)),
            "{rate}: {tries:?}"
        );
    }
}
