//! One hazard of the specimen that runs, and proof that it is as if nobody had looked at it.
//!
//! Next: `hazards.rs` goes over all of them; `testing/specimens/hazards` is the program.
#![allow(dead_code, reason = "each test file uses its own part")]

use crate::common_trace::{Home, LIMIT, Outcome, probes_mapped, until};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;
use tempfile::TempDir;
use trimtab_specimens::{HazardVariant, first_difference, hazards};
use trimtab_types::procfs::{Mapping, parse_maps};

/// A hazard under way. Dropping it ends it.
pub struct Hazard {
    child: Child,
    folder: TempDir,
    name: String,
}

impl Hazard {
    /// Starts one and waits until it has begun.
    pub fn start(variant: HazardVariant, hazard: &str) -> Hazard {
        Hazard::start_with(variant, hazard, &|_| {})
    }

    /// The same, with whatever is added to its command.
    pub fn start_with(variant: HazardVariant, hazard: &str, add: &dyn Fn(&mut Command)) -> Hazard {
        let mut started = Hazard::start_at_once(variant, hazard, false, add);
        let begun = started.path("end.begun");
        until("begin of the hazard", || begun.exists() || started.child.try_wait().expect("a child").is_some());
        started
    }

    /// Its output and its exit status when nobody disturbs it.
    pub fn undisturbed(variant: HazardVariant, hazard: &str) -> (String, ExitStatus) {
        Hazard::start_at_once(variant, hazard, true, &|_| {}).end()
    }

    fn start_at_once(variant: HazardVariant, hazard: &str, ends_at_once: bool, add: &dyn Fn(&mut Command)) -> Hazard {
        let (program, plugin) = hazards(variant).expect("builds");
        let folder = TempDir::new().expect("a folder");
        let end = folder.path().join("end");
        if ends_at_once {
            File::create(&end).expect("a file");
        }
        let mut command = Command::new(program);
        command.arg(hazard).arg(&end).arg(plugin).stdin(Stdio::null());
        add(&mut command);
        let output = |name: &str| File::create(folder.path().join(name)).expect("a file");
        let child = command.stdout(output("out")).stderr(output("err")).spawn().expect("starts");
        Hazard { child, folder, name: format!("{hazard}, {variant:?}") }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// A file that it looks at, or makes.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Tells it to go on: `end.go`, `end.close`.
    pub fn tell(&self, what: &str) {
        File::create(self.path(&format!("end.{what}"))).expect("a file");
    }

    /// Waits until it says so: `end.closed`.
    pub fn says(&self, what: &str) {
        let path = self.path(&format!("end.{what}"));
        until(what, || path.exists());
    }

    /// Runs a script in it.
    pub fn probe(&self, home: &Home, script: &str) -> Outcome {
        home.run(&["probe", script, &self.pid().to_string()])
    }

    /// Proves that it runs on with its own code, and that nothing of ours is in it.
    #[track_caller]
    pub fn is_as_its_files(&mut self, step: &str) {
        let name = &self.name;
        let ended = self.child.try_wait().expect("a child");
        assert!(ended.is_none(), "{name}, {step}: it has ended ({ended:?}): {}", self.output());
        assert_eq!(probes_mapped(self.child.id() as i32), 0, "{name}, {step}: memory of ours");
        assert_eq!(changed_code(self.child.id() as i32), None, "{name}, {step}");
    }

    /// Ends it: what it printed and returned.
    pub fn end(mut self) -> (String, ExitStatus) {
        File::create(self.path("end")).expect("a file");
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(Instant::now() < deadline, "{} does not end: {}", self.name, self.output());
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        (self.output(), status)
    }

    /// As [`Hazard::end`], and it must be as in an undisturbed run.
    #[track_caller]
    pub fn ends_well(self) {
        let name = self.name.clone();
        let (output, status) = self.end();
        assert!(output.ends_with(" OK\n") && status.success(), "{name}: {status}: {output}");
    }

    fn output(&self) -> String {
        ["out", "err"].iter().map(|name| fs::read_to_string(self.path(name)).unwrap_or_default()).collect()
    }
}

impl Drop for Hazard {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Where the code of a process differs from its files. Libraries may come and go meanwhile.
pub fn changed_code(pid: i32) -> Option<String> {
    let maps = parse_maps(&fs::read(format!("/proc/{pid}/maps")).ok()?).expect("a map");
    let is_code = |mapping: &&Mapping| mapping.executable && mapping.inode != 0 && mapping.path.starts_with('/');
    maps.iter().filter(is_code).find_map(|mapping| changed_in(pid, mapping))
}

fn changed_in(pid: i32, mapping: &Mapping) -> Option<String> {
    let file = File::open(&mapping.path).ok()?;
    if file.metadata().ok()?.ino() != mapping.inode {
        return None;
    }
    let length = (mapping.end - mapping.start) as usize;
    let (mut now, mut want) = (vec![0; length], vec![0; length]);
    File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut now, mapping.start).ok()?;
    // The last page of a file may be filled up with zeros.
    let mut read = 0;
    while let Ok(got @ 1..) = file.read_at(&mut want[read..], mapping.offset + read as u64) {
        read += got;
    }
    let at = first_difference(&now[..read], &want[..read])?;
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    // Read while it was unloaded, it may be another one's code.
    parse_maps(&maps).ok()?.iter().any(|other| other == mapping).then(|| format!("{} at {at:#x}", mapping.path))
}
