//! `bench forecast --only product`: FAST's product of complex matrices on two servers under changing load, planned and done.
//!
//! Client and servers are nodes of this machine, each with a link of its own that is limited; each server has a processor of its own,
//! which busy loops share in some rounds. Time comes from models that were fitted on the servers, links and shares from `trimtab
//! weather` there. Both ways of the plan are done in every round, step by step as the answer lists them: matrices go from
//! program to program over TCP, one at a time for each sender and each receiver, and products are those of OpenBLAS.
//!
//! Next: `crates/models/grid` for plans; `hand.py` for what is done on the nodes.

use super::answer::{answer_of, number};
use super::attach::Bench;
use super::record::Record;
use super::routines::{BLAS, library};
use super::row::{Row, Verdict};
use super::runner::Spread;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use trimtab_specimens::routine;
use trimtab_testbed::Testbed;

/// The program that each node runs.
const HAND: &str = include_str!("hand.py");
/// Computes until its input ends.
const BUSY: &str = "import os, sys, threading\n\
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()\n\
    while True: pass";
/// Nodes, by the plan's names; servers have these processors.
const CLIENT: usize = 1;
const SERVERS: [(usize, &str, u32); 2] = [(2, "s1", 0), (3, "s2", 1)];
/// Of each node's link.
const RATE: &str = "1gbit";
/// A host takes from several senders at once what each may send.
const RECEIVES_BYTES_PER_S: f64 = 1e9;
/// Rows of the matrices, and of those that the model is fitted on.
const ROWS: u32 = 2000;
const FITTED_ROWS: &str = "n=700,850,1000,1200,1400,1650,1900,2150,2400";
/// Numbers that an addition goes over, a hundred times.
const NUMBERS: u32 = 60_000;
const FITTED_NUMBERS: &str = "n=20000,30000,40000,50000,70000,90000,120000";
const FIT_WITHIN_S: &str = "120";
/// Which servers are busy, round by round.
const LOADS: [[bool; 2]; 4] = [[false, false], [true, false], [false, true], [true, true]];
const ROUNDS: usize = 8;
/// Bars, percent of the time measured.
const MEAN_PERCENT_MAX: f64 = 5.0;
const WORST_PERCENT_MAX: f64 = 12.0;
const STEP_LIMIT: Duration = Duration::from_secs(120);

/// One way of the plan in one round.
struct Done {
    way: String,
    load: [bool; 2],
    said_s: f64,
    ends_s: Option<(f64, f64)>,
    took_s: f64,
    /// Each step's beginning and end, forecast and as it was, in words.
    steps: Vec<String>,
}

/// Plans, does, and judges.
pub fn run(bench: &Bench, record: &mut Record) -> Result<()> {
    let what = "product: FAST's product of complex matrices on two servers";
    let lack = Testbed::lack().map(|lack| lack.0);
    let few = std::thread::available_parallelism().map_or(1, usize::from) < SERVERS.len();
    if let Some(why) = lack.or_else(|| few.then(|| "each server needs a processor of its own".to_owned())) {
        record.judge(vec![Row::skipped(what, why)]);
        return Ok(());
    }
    let testbed = Testbed::up(&bench.folder, SERVERS.len() + 1)?;
    let nodes = Nodes::ready(bench, &testbed)?;
    let mut done = Vec::new();
    for round in 0..bench.rounds(ROUNDS, 1) {
        done.extend(nodes.round(LOADS[round % LOADS.len()])?);
    }
    record.judge(rows(what, &done));
    Ok(())
}

/// A process that ends with this.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

struct Nodes<'a> {
    bench: &'a Bench,
    testbed: &'a Testbed,
    product: String,
    addition: String,
    /// Files of links between all pairs.
    links: Vec<PathBuf>,
}

impl<'a> Nodes<'a> {
    /// Limits links, fits the models on the servers, and asks for the links.
    fn ready(bench: &'a Bench, testbed: &'a Testbed) -> Result<Self> {
        let blas = library(bench, BLAS)?;
        let product = format!("env OPENBLAS_NUM_THREADS=1 \"{}\" \"{}\"", routine("dgemm")?.display(), blas.display());
        let addition = format!("\"{}\"", routine("stream")?.display());
        let mut nodes = Nodes { bench, testbed, product, addition, links: Vec::new() };
        for node in CLIENT..=SERVERS.len() + 1 {
            let words = format!("qdisc replace dev eth0 root tbf latency 50ms burst 128kb rate {RATE}");
            let output = testbed.on(node, "tc").args(words.split(' ')).output().context("cannot run tc")?;
            ensure!(output.status.success(), "tc: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let fits = [("product", &nodes.product, FITTED_ROWS), ("addition", &nodes.addition, FITTED_NUMBERS)];
        for ((name, run, over), (node, host, processor)) in fits.iter().zip(SERVERS) {
            eprintln!("  product: {name} is fitted on {host}");
            let run = format!("{run} {{n}}");
            let words = ["model", "fit", name, "--run", &run, "--over", over, "--within", FIT_WITHIN_S];
            nodes.trimtab(node, Some(processor), &words)?;
        }
        nodes.links = nodes.ask_for_links()?;
        Ok(nodes)
    }

    /// `trimtab` on a node, and on a processor of it; its JSON.
    fn trimtab(&self, node: usize, processor: Option<u32>, words: &[&str]) -> Result<Value> {
        let binary = self.bench.binary("trimtab").canonicalize().context("no trimtab was built")?;
        let list = processor.map_or("0-1023".to_owned(), |number| number.to_string());
        let mut command = self.testbed.on(node, "taskset");
        command.args(["-c", &list]).arg(binary);
        answer_of(self.bench, command, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn ask_for_links(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let all = [CLIENT, SERVERS[0].0, SERVERS[1].0];
        for to in all {
            let secret = self.bench.folder.join(format!("secret-{to}"));
            let mut answering =
                self.testbed.on(to, &self.bench.binary("trimtab").canonicalize()?.display().to_string());
            answering.args(["weather", "--answer"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut answering = Guarded(answering.spawn().context("cannot run trimtab")?);
            let mut lines = BufReader::new(answering.0.stdout.take().context("no stdout")?).lines();
            let mut word = |before: &str| -> Result<String> {
                let line = lines.next().context("it does not answer")??;
                Ok(line.strip_prefix(before).with_context(|| format!("`{line}`"))?.to_owned())
            };
            let port = word("answering at 0.0.0.0:")?;
            std::fs::write(&secret, word("secret ")?)?;
            for from in all.into_iter().filter(|from| *from != to) {
                eprintln!("  product: the link from node {from} to node {to}");
                let (address, secret) = (format!("{}:{port}", self.testbed.address(to)), secret.display().to_string());
                let words = ["weather", "--no-probe", "--to", &address, "--secret", &secret];
                let mut found = self.trimtab(from, None, &words)?;
                // The processor is asked for in every round.
                found["figures"].as_object_mut().context("no figures")?.retain(|name, _| name != "cpu_share");
                files.push(self.kept(&format!("link-{from}-{to}.json"), &found)?);
            }
        }
        Ok(files)
    }

    fn kept(&self, name: &str, value: &Value) -> Result<PathBuf> {
        let path = self.bench.folder.join(name);
        std::fs::write(&path, value.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Host of the plan to the node's own name.
    fn name_of(&self, host: &str) -> Result<&str> {
        Ok(self.testbed.name(node_of(host)?))
    }

    /// The plan with the nodes' names, with one of its ways.
    fn plan(&self, way: usize) -> Result<Value> {
        let data = |name: &str, is_there: bool| -> Result<(String, Value)> {
            let place = if is_there { format!("@{}", self.name_of("client")?) } else { String::new() };
            Ok((name.to_owned(), json!(format!("dense:double:{ROWS}x{ROWS}{place}"))))
        };
        let given = GIVEN.map(|name| data(name, true));
        let made = ["Cr1", "Cr2", "Ci1", "Ci2", "Cr", "Ci"].map(|name| data(name, false));
        let all = given.into_iter().chain(made).collect::<Result<serde_json::Map<_, _>>>()?;
        let mut steps = Vec::new();
        let (name, first) = &WAYS[way];
        for (host, takes, gives) in first.iter().chain(&SECOND) {
            steps.push(json!({ "run": "product", "on": self.name_of(host)?, "args": { "n": ROWS },
                               "takes": takes, "gives": [gives] }));
        }
        for (host, takes, gives) in ADDED {
            steps.push(json!({ "run": "addition", "on": self.name_of(host)?, "args": { "n": NUMBERS },
                               "takes": takes, "gives": [gives] }));
        }
        let client = self.name_of("client")?;
        steps.extend(["Cr", "Ci"].map(|data| json!({ "send": data, "to": client })));
        let way = json!({ "name": name, "steps": steps });
        Ok(json!({ "version": 1, "transfers": "in_turn", "data": all, "alternatives": [way] }))
    }

    /// Both ways, under a load.
    fn round(&self, load: [bool; 2]) -> Result<Vec<Done>> {
        let mut busy = Vec::new();
        for ((node, _, processor), _) in SERVERS.iter().zip(load).filter(|(_, is_busy)| *is_busy) {
            let mut command = self.testbed.on(*node, "setsid");
            command.args(["taskset", "-c", &processor.to_string(), "python3", "-c", BUSY]);
            busy.push(command.stdin(Stdio::piped()).spawn().context("cannot run setsid")?);
        }
        let mut hands = Hands::at(self.testbed)?;
        let mut done = Vec::new();
        for (way, (name, _)) in WAYS.iter().enumerate() {
            let plan = self.plan(way)?;
            let answer = self.forecast(&plan)?;
            let steps = answer.pointer("/alternatives/0/steps").and_then(Value::as_array).context("no steps")?;
            let times = hands.follow(self, &plan, steps)?;
            let took_s = times.iter().map(|(_, ended_s)| *ended_s).fold(0.0, f64::max);
            let one = Done {
                way: (*name).to_owned(),
                load,
                said_s: number(&answer, "/value")?,
                ends_s: number(&answer, "/lower").ok().zip(number(&answer, "/upper").ok()),
                took_s,
                steps: steps.iter().zip(&times).map(|(step, times)| step_told(step, *times)).collect(),
            };
            eprintln!("  product: {}, busy {load:?}: {:.2} s forecast, {took_s:.2} s taken", one.way, one.said_s);
            done.push(one);
        }
        for mut one in busy {
            drop(one.stdin.take());
            one.wait().context("it does not end")?;
        }
        Ok(done)
    }

    /// Looks at both servers' processors, and plans.
    fn forecast(&self, plan: &Value) -> Result<Value> {
        let mut files = self.links.clone();
        for (node, host, processor) in SERVERS {
            let found = self.trimtab(node, Some(processor), &["weather"])?;
            files.push(self.kept(&format!("{host}.json"), &found)?);
        }
        let hosts = ["client", "s1", "s2"].map(|host| self.name_of(host).map(str::to_owned));
        let hosts = hosts.into_iter().collect::<Result<Vec<_>>>()?;
        let much = |name: &String| (name.clone(), json!({ "receive_bytes_per_s": RECEIVES_BYTES_PER_S }));
        let facts: serde_json::Map<String, Value> = hosts.iter().map(much).collect();
        files.push(self.kept("hosts.json", &json!({ "version": 1, "hosts": facts, "links": [] }))?);
        let plan = self.kept("plan.json", plan)?;
        let mut words = vec!["forecast".to_owned(), "plan".to_owned(), plan.display().to_string()];
        for file in &files {
            words.extend(["--weather".to_owned(), file.display().to_string()]);
        }
        for node in CLIENT..=SERVERS.len() + 1 {
            words.extend(["--alias".to_owned(), format!("{}={}", self.testbed.name(node), self.testbed.address(node))]);
        }
        self.trimtab(SERVERS[0].0, None, &words.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// A step in words: from when to when it was forecast, and was.
fn step_told(step: &Value, (begun_s, ended_s): (f64, f64)) -> String {
    let hosts =
        step["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(" > ");
    let said = |pointer: &str| step.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    format!(
        "{} on {hosts}: {:.3} to {:.3} s forecast, {begun_s:.3} to {ended_s:.3} s taken",
        step["what"].as_str().unwrap_or("?"),
        said("/begins_s"),
        said("/ends_s/value"),
    )
}

/// Steps of a way: where, what is taken, what is given.
type Step = (&'static str, [&'static str; 2], &'static str);

/// Data that the client has.
const GIVEN: [&str; 4] = ["Ar", "Ai", "Br", "Bi"];
const WAYS: [(&str, [Step; 2]); 2] = [
    ("with exchange", [("s1", ["Ai", "Br"], "Ci2"), ("s2", ["Ai", "Bi"], "Cr2")]),
    ("without exchange", [("s1", ["Ai", "Bi"], "Cr2"), ("s2", ["Ai", "Br"], "Ci2")]),
];
const SECOND: [Step; 2] = [("s1", ["Ar", "Br"], "Cr1"), ("s2", ["Ar", "Bi"], "Ci1")];
const ADDED: [Step; 2] = [("s1", ["Cr1", "Cr2"], "Cr"), ("s2", ["Ci1", "Ci2"], "Ci")];

fn node_of(host: &str) -> Result<usize> {
    match host {
        "client" => Ok(CLIENT),
        _ => Ok(SERVERS.iter().find(|server| server.1 == host).with_context(|| format!("no host {host}"))?.0),
    }
}

/// A program on each node that sends, receives and runs.
struct Hands {
    of_node: Vec<(Guarded, ChildStdin, String)>,
    said: Receiver<String>,
}

impl Hands {
    fn at(testbed: &Testbed) -> Result<Hands> {
        let (tell, said) = channel();
        let mut of_node = Vec::new();
        for node in CLIENT..=SERVERS.len() + 1 {
            // In a session of its own, as on a server: the kernel shares processors out among sessions, and nodes have one kernel.
            let mut command = testbed.on(node, "setsid");
            command.args(["--wait", "python3", "-c", HAND]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = Guarded(command.spawn().context("cannot run python3")?);
            let stdin = child.0.stdin.take().context("no stdin")?;
            let mut lines = BufReader::new(child.0.stdout.take().context("no stdout")?).lines();
            let port = lines.next().context("it does not begin")??;
            hear(lines, tell.clone());
            of_node.push((child, stdin, format!("{} {port}", testbed.address(node))));
        }
        Ok(Hands { of_node, said })
    }

    /// Does the steps as the answer lists them; when each began and ended, seconds.
    fn follow(&mut self, nodes: &Nodes<'_>, plan: &Value, steps: &[Value]) -> Result<Vec<(f64, f64)>> {
        let mut course = Course::of(nodes, plan, steps)?;
        let begun = Instant::now();
        let mut times = vec![(0.0, 0.0); steps.len()];
        while !course.is_over() {
            for (at, node, order) in course.begin(&self.of_node) {
                times[at].0 = begun.elapsed().as_secs_f64();
                writeln!(self.of_node[node - CLIENT].1, "{at} {order}").context("a node does not listen")?;
            }
            let said = self.said.recv_timeout(STEP_LIMIT).context("a step takes too long")?;
            let at: usize = said.trim().parse().with_context(|| format!("a step failed: {said}"))?;
            times.get_mut(at).context("no such step")?.1 = begun.elapsed().as_secs_f64();
            course.end(at);
        }
        Ok(times)
    }
}

fn hear(lines: impl Iterator<Item = std::io::Result<String>> + Send + 'static, tell: Sender<String>) {
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
}

/// The work of one step.
enum Doing {
    Send { data: String, from: usize, to: usize, bytes: u64 },
    Run { on: usize, takes: Vec<String>, gives: Vec<String>, words: String },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    Begun,
    Ended,
}

/// The steps of a plan as they are done: in its order, each as soon as its data are there and nobody else has its turn.
struct Course {
    steps: Vec<(Doing, State)>,
    /// Data by name and node.
    there: BTreeSet<(String, usize)>,
}

impl Course {
    fn of(nodes: &Nodes<'_>, plan: &Value, listed: &[Value]) -> Result<Course> {
        let node_named = |name: &Value| -> Result<usize> {
            let found = (CLIENT..=SERVERS.len() + 1).find(|node| *name == json!(nodes.testbed.name(*node)));
            found.with_context(|| format!("no node {name}"))
        };
        let names = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
        };
        let runs = plan["alternatives"][0]["steps"].as_array().context("no steps")?.iter();
        let mut runs = runs.filter(|step| step["run"].is_string());
        let mut steps = Vec::new();
        for step in listed {
            let doing = match step["kind"].as_str() {
                Some("send") => Doing::Send {
                    data: step["what"].as_str().context("no name")?.to_owned(),
                    from: node_named(&step["hosts"][0])?,
                    to: node_named(step["hosts"].as_array().and_then(|hosts| hosts.last()).context("no way")?)?,
                    bytes: number(step, "/bytes")? as u64,
                },
                _ => {
                    let run = runs.next().context("a routine more than were planned")?;
                    let on = node_named(&step["hosts"][0])?;
                    let processor = SERVERS.iter().find(|server| server.0 == on).context("no server")?.2;
                    let (program, size) = match step["what"].as_str() {
                        Some("product") => (&nodes.product, ROWS),
                        _ => (&nodes.addition, NUMBERS),
                    };
                    let words = format!("taskset -c {processor} {program} {size}");
                    Doing::Run { on, takes: names(&run["takes"]), gives: names(&run["gives"]), words }
                }
            };
            steps.push((doing, State::Waits));
        }
        let there = GIVEN.map(|name| (name.to_owned(), CLIENT)).into();
        Ok(Course { steps, there })
    }

    fn is_over(&self) -> bool {
        self.steps.iter().all(|(_, state)| *state == State::Ended)
    }

    /// Steps that begin now: number, node, and the order for it.
    fn begin(&mut self, addresses: &[(Guarded, ChildStdin, String)]) -> Vec<(usize, usize, String)> {
        let mut begun = Vec::new();
        for at in 0..self.steps.len() {
            if self.steps[at].1 != State::Waits || !self.is_ready(at) {
                continue;
            }
            self.steps[at].1 = State::Begun;
            begun.push(match &self.steps[at].0 {
                Doing::Send { from, to, bytes, .. } => {
                    (at, *from, format!("send {bytes} {}", addresses[*to - CLIENT].2))
                }
                Doing::Run { on, words, .. } => (at, *on, format!("run {words}")),
            });
        }
        begun
    }

    fn is_ready(&self, at: usize) -> bool {
        let is_there = |name: &String, node: usize| self.there.contains(&(name.clone(), node));
        match &self.steps[at].0 {
            Doing::Send { data, from, to, .. } => {
                let is_rival = |(doing, state): &(Doing, State)| match doing {
                    Doing::Send { from: sender, to: receiver, .. } => {
                        *state == State::Begun && (sender == from || receiver == to)
                    }
                    Doing::Run { .. } => false,
                };
                is_there(data, *from) && !self.steps.iter().any(is_rival)
            }
            Doing::Run { on, takes, .. } => {
                let is_before = |(doing, state): &(Doing, State)| {
                    *state != State::Ended && matches!(doing, Doing::Run { on: other, .. } if other == on)
                };
                takes.iter().all(|name| is_there(name, *on)) && !self.steps[..at].iter().any(is_before)
            }
        }
    }

    fn end(&mut self, at: usize) {
        let Some((doing, state)) = self.steps.get_mut(at) else { return };
        *state = State::Ended;
        match doing {
            Doing::Send { data, to, .. } => _ = self.there.insert((data.clone(), *to)),
            Doing::Run { on, gives, .. } => self.there.extend(gives.iter().map(|name| (name.clone(), *on))),
        }
    }
}

fn rows(what: &str, done: &[Done]) -> Vec<Row> {
    let off: Vec<f64> = done.iter().map(|one| 100.0 * (one.said_s / one.took_s - 1.0).abs()).collect();
    let mean = off.iter().sum::<f64>() / off.len().max(1) as f64;
    let held = done.iter().filter(|one| one.ends_s.is_some_and(|ends| (ends.0..=ends.1).contains(&one.took_s))).count();
    let right = done.chunks(WAYS.len()).filter(|ways| {
        let first = |of: fn(&Done) -> f64| ways.iter().map(of).enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        first(|one| one.said_s).map(|best| best.0) == first(|one| one.took_s).map(|best| best.0)
    });
    let (right, rounds) = (right.count(), done.len() / WAYS.len());
    let all: Vec<Value> = done
        .iter()
        .map(|one| {
            json!({
                "way": one.way, "busy": one.load, "said_s": one.said_s, "ends_s": one.ends_s, "took_s": one.took_s,
                "steps": one.steps,
            })
        })
        .collect();
    let told = |what: String, measured: String| Row {
        what,
        measured,
        bar: String::new(),
        verdict: Verdict::NoBar,
        figures: Value::Null,
    };
    let spread = Spread::of(off.clone()).map_or(Value::Null, |spread| spread.to_json());
    vec![
        Row {
            what: format!("{what}: whole sequence, mean"),
            measured: format!("{mean:.1}% off in the mean of {} sequences", off.len()),
            bar: format!("{MEAN_PERCENT_MAX}%"),
            verdict: Verdict::of(mean <= MEAN_PERCENT_MAX && !off.is_empty()),
            figures: json!({ "sequences": all, "off_percent": spread }),
        },
        Row::at_most(format!("{what}: whole sequence, each"), "% off", &off, WORST_PERCENT_MAX),
        told(format!("{what}: 90% intervals that hold what it took"), format!("{held} of {}", done.len())),
        told(format!("{what}: the way that was forecast to end first did"), format!("{right} of {rounds} rounds")),
    ]
}
