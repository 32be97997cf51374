//! The share that is predicted for a new process, beside the share that a new process then gets.
//!
//! Spinning processes of known number and nice level run on one processor, in a control group of their own whose weight keeps
//! others from it, if we may make one; else in this session. A process that sleeps there stands for the place of the new one, whose
//! truth is its processor time over time, as the kernel counts both. Other work may change between prediction and
//! truth: each row has three tries.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_sensors::{Beside, Places, Sensor, Way};
use trimtab_types::Pid;

/// Processes that end with their guard, and by themselves once the test is gone.
struct Crowd {
    processes: Vec<Child>,
    group: Option<Group>,
}

/// A control group of the first version, gone with its guard.
struct Group(PathBuf);

impl Group {
    /// One that outweighs everything else, with a part of one processor at most.
    fn new(quota: Option<f64>) -> Option<Group> {
        let root = Path::new("/sys/fs/cgroup/cpu");
        let folder = root.join(format!("trimtab-truth-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        let group = Group(folder);
        std::fs::write(group.0.join("cpu.shares"), "262144").ok()?;
        if let Some(quota) = quota {
            std::fs::write(group.0.join("cpu.cfs_quota_us"), format!("{:.0}", quota * 100_000.0)).ok()?;
        }
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel takes a moment to let go of processes that were reaped.
        while self.0.exists() && std::fs::remove_dir(&self.0).is_err() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Crowd {
    fn add(&mut self, nice: i32, what: &str) -> Pid {
        let test = std::process::id();
        let script = match what {
            "sleep" => format!("while kill -0 {test}; do sleep 0.2; done 2>/dev/null"),
            _ => format!("while kill -0 {test}; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done 2>/dev/null"),
        };
        let own = self.group.as_ref().map_or_else(|| "/dev/null".into(), |group| group.0.join("tasks"));
        let enter = format!("echo $$ > {}; exec taskset -c 0 nice -n {nice} sh -c \"$0\"", own.display());
        let child = Command::new("bash")
            .args(["-c", &enter, &script])
            .stdin(Stdio::null())
            .spawn()
            .expect("util-linux is there");
        let pid = Pid(child.id().cast_signed());
        self.processes.push(child);
        // It has become the shell.
        while !std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sh") {
            std::thread::sleep(Duration::from_millis(2));
        }
        pid
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.processes {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

fn ran_s(pid: Pid) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("it runs");
    text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn own_nice() -> i32 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("our own line");
    let words = text.rsplit_once(')').expect("a name").1.split_whitespace();
    words.clone().nth(16).and_then(|word| word.parse().ok()).expect("field 19")
}

/// The prediction of each way, and what came.
fn row(spinners: &[i32], nice: i32, quota: Option<f64>) -> (Vec<(Way, f64)>, f64) {
    let mut crowd = Crowd { processes: Vec::new(), group: Group::new(quota) };
    let place = crowd.add(0, "sleep");
    for level in spinners {
        crowd.add(*level, "spin");
    }
    let mut sensor = Sensor::new(Places::default(), Beside::Process(place));
    sensor.begin();
    std::thread::sleep(Duration::from_millis(700));
    // Levels count from our own one.
    let level = (own_nice() + nice).min(19);
    let reading = sensor.read(&[level]).expect("a look was before");
    let new = crowd.add(nice, "spin");
    let (begun, before) = (Instant::now(), ran_s(new));
    std::thread::sleep(Duration::from_millis(1500));
    let got = (ran_s(new) - before) / begun.elapsed().as_secs_f64();
    (reading.shares[0].said.clone(), got)
}

#[test]
fn a_new_process_gets_what_was_predicted() {
    let mut all = Vec::new();
    for (spinners, nice, quota) in [
        (&[][..], 0, None),
        (&[0], 0, None),
        (&[0, 0], 0, None),
        (&[0, 0, 0], 0, None),
        (&[19], 0, None),
        (&[19, 19], 0, None),
        (&[0], 19, None),
        (&[0, 0], 19, None),
        (&[19], 19, None),
        (&[0, 19], 10, None),
        (&[5, 5], 0, None),
        (&[], 0, Some(0.25)),
        (&[0], 0, Some(0.5)),
    ] {
        let mut tries = Vec::new();
        for _ in 0..3 {
            let (said, got) = row(spinners, nice, quota);
            println!("spinners {spinners:?}, quota {quota:?}, new one at {nice}: predicted {said:?}, got {got:.4}");
            let predicted = said.iter().find(|(way, _)| *way == Way::Tasks).expect("times of threads").1;
            tries.push((predicted, got));
            if is_near(predicted, got) {
                break;
            }
        }
        all.push((spinners, nice, tries));
    }
    let wrong: Vec<_> =
        all.iter().filter(|(.., tries)| !tries.iter().any(|(said, got)| is_near(*said, *got))).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Within a tenth, or a fiftieth of a processor: a turn of the scheduler's is as long where shares are small.
fn is_near(predicted: f64, got: f64) -> bool {
    (predicted / got - 1.0).abs() < 0.1 || (predicted - got).abs() < 0.02
}
