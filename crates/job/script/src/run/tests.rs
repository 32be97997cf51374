//! A program that unloads a library right between planning and writing: the process is read anew and probed as it is then.
//!
//! Next: `testing/specimens/hazards/processes.cpp`, whose library comes and goes when it is told.

use super::*;
use std::process::{Child, Command, Stdio};
use trimtab_session::Passing;
use trimtab_specimens::{HazardVariant, TextSnapshot, hazards, threads_running, wait_for};
use trimtab_types::Pid;

const TICKS_PER_SECOND: f64 = 1e9;

/// The hazard, which ends with the test.
struct Hazard(Child);

impl Drop for Hazard {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn a_library_that_goes_meanwhile_is_tried_without() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (program, plugin) = hazards(HazardVariant::Optimised).expect("builds");
    let until = folder.path().join("end");
    let file = |name: &str| folder.path().join(format!("end.{name}"));
    let mut command = Command::new(program);
    command.arg("late").arg(&until).arg(plugin).stdin(Stdio::null()).stdout(Stdio::null());
    let hazard = Hazard(command.spawn().expect("starts"));
    let pid = Pid(hazard.0.id() as i32);
    let tell = |name: &str| drop(std::fs::File::create(file(name)).expect("a file"));
    wait_for("its beginning", || file("begun").exists());
    let text = TextSnapshot::of(pid.0).expect("its text");
    tell("go");
    let cache = ImageCache::in_memory();
    let script = "entry *late_plugin*@hazards { here++ } entry plugin_work@libplugin.so { there++ }";
    let options = ScriptOptions { text: script.into(), ..ScriptOptions::default() };
    let target = Target { pid, rank: None, ranks: None };
    let made = || Source::new(pid, &options, &cache).expect("compiles");
    wait_for("the library", || made().waiting.is_empty());
    let sources = [made(), made()];
    tell("close");
    wait_for("its end", || file("closed").exists());
    let [first, second] = sources;
    let failed = Member::insert(target, first, TICKS_PER_SECOND, &cache).map(drop);
    assert!(failed.as_ref().is_err_and(Passing::is_passing), "{failed:?}");
    let member = inserted(target, second, &options, &cache, TICKS_PER_SECOND).expect("what is there is probed");
    assert_eq!(member.awaited(), ["plugin_work@libplugin.so"], "what is not there is waited for");
    assert!(member.part.inserted.point_count > 0);
    drop(member);
    assert_eq!(text.difference_now().expect("its text"), None);
    threads_running(pid.0).expect("no thread is stopped");
}
