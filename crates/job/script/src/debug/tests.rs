//! Local variables and source lines of a running program, as points inside functions ask for them.

use super::*;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use trimtab_session::ImageCache;
use trimtab_session::Modules;
use trimtab_snippet::facts::Location;
use trimtab_snippet::ir::Register;
use trimtab_snippet::types::Type;
use trimtab_types::Pid;

struct Running {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Running {
    fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("particles");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let mut compiler = Command::new("cc");
        compiler.args(flags).arg("-o").arg(&program).arg(sources.join("particles.c")).arg(sources.join("other.c"));
        assert!(compiler.status().expect("cc runs").success());
        let mut child = Command::new(&program).stdout(Stdio::piped()).spawn().expect("starts");
        child.stdout.as_mut().expect("piped").read_exact(&mut [0; 6]).expect("it is ready");
        Running { child, _folder: folder }
    }

    fn modules(&self) -> Modules {
        let pid = Pid(self.child.id() as i32);
        Modules::read(pid, &ImageCache::in_memory(), &|path| path.ends_with("particles")).expect("modules")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn step_line() -> u32 {
    let source = include_str!("../../tests/programs/particles.c");
    1 + source.lines().position(|line| line.contains("/* each step */")).expect("the mark") as u32
}

/// Without optimisation each variable has a place of its own in the frame.
#[test]
fn a_line_leads_to_locals_in_the_frame() {
    for (flags, base) in [(&["-g", "-O0"][..], Register::Rbp), (&["-g", "-O0", "-fomit-frame-pointer"], Register::Rsp)]
    {
        let running = Running::start(flags);
        let modules = running.modules();
        let (files, entry) = (DebugFiles::of(&modules), modules.modules[0].function("move_particle").expect("it").1);
        let sections = DebugSections::of(&files);
        let facts = DebugFacts::new(&sections);
        let sites = facts.line("particles.c", step_line(), None).expect("sites");
        let [site] = sites.as_slice() else { panic!("{flags:?}: {sites:?}") };
        assert_eq!(site.function, entry, "{flags:?}");
        assert_eq!(facts.local_names(site.address), ["i", "p", "dt", "steps", "calls", "way"], "{flags:?}");
        let mut offsets = Vec::new();
        for (name, kind) in [("i", Type::INT), ("dt", Type::DOUBLE), ("steps", Type::INT), ("way", Type::DOUBLE)] {
            let object = facts.local(site.address, name).expect(name);
            assert_eq!(object.kind, kind, "{flags:?}: {name}");
            let Location::Relative(register, offset) = object.location else { panic!("{name}: {object:?}") };
            assert_eq!(register, base, "{flags:?}: {name}");
            offsets.push(offset);
        }
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), 4, "{flags:?}: each has its own place");
        let calls = facts.local(site.address, "calls").expect("calls");
        assert!(matches!(calls.location, Location::Address(_)), "{calls:?}");
        assert_eq!(facts.local(site.address, "sum"), None, "it is main's");
    }
}

#[test]
fn lines_without_code_say_what_there_is() {
    let running = Running::start(&["-g", "-O2"]);
    let modules = running.modules();
    let files = DebugFiles::of(&modules);
    let sections = DebugSections::of(&files);
    let facts = DebugFacts::new(&sections);
    for (file, line, expected) in [
        ("particles.cc", 44, &["no source file", "particles.c"][..]),
        ("particles.c", 1, &["no code was made", "the next line with code is"]),
        ("particles.c", 9999, &["no code was made", "no later line"]),
    ] {
        let said = facts.line(file, line, None).expect_err("no code").to_string();
        assert!(expected.iter().all(|part| said.contains(part)), "{file}:{line}: {said}");
    }
    let said = facts.line("particles.c", 44, Some("libm.so.6")).expect_err("not there").to_string();
    assert!(said.contains("no part of libm.so.6 has debugging information"), "{said}");
}

#[test]
fn without_debugging_information_nothing_is_known() {
    let running = Running::start(&["-O1"]);
    let modules = running.modules();
    let entry = modules.modules[0].function("move_particle").expect("it").1;
    let files = DebugFiles::of(&modules);
    let sections = DebugSections::of(&files);
    let facts = DebugFacts::new(&sections);
    assert_eq!(facts.signature(entry), None);
    assert_eq!(facts.local_names(entry), Vec::<String>::new());
    assert!(facts.line("particles.c", 44, None).expect_err("nothing").to_string().contains("compile it with -g"));
}
