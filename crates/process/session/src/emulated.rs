//! Processes that are run by an emulator: their code is data to it, and what runs is another program.
//!
//! Next: `modules`, which asks before it reads anything.

use trimtab_types::Pid;

/// Interpreters of programs, by the file that runs in place of the program.
const EMULATORS: [(&str, &str); 8] = [
    ("box64", "box64"),
    ("box32", "box32"),
    ("FEXInterpreter", "FEX"),
    ("FEXLoader", "FEX"),
    ("FEX", "FEX"),
    ("rosetta", "Rosetta"),
    ("blink", "blink"),
    ("pinbin", "Pin"),
];
/// Machines that QEMU runs single programs of; its other programs are what they are called.
const QEMU_MACHINES: [&str; 12] = [
    "x86_64",
    "i386",
    "aarch64",
    "arm",
    "ppc",
    "ppc64",
    "ppc64le",
    "riscv64",
    "s390x",
    "mips64el",
    "loongarch64",
    "sparc64",
];

/// The emulator that runs the process, if one does.
pub(crate) fn emulator_of(pid: Pid) -> Option<String> {
    let file = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    named(file.to_str()?)
}

fn named(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    if let Some(tool) = name.strip_suffix("-amd64-linux").or_else(|| name.strip_suffix("-x86-linux"))
        && path.contains("/valgrind/")
    {
        return Some(format!("valgrind ({tool})"));
    }
    if let Some(machine) = name.strip_prefix("qemu-") {
        let machine = machine.strip_suffix("-static").unwrap_or(machine);
        return QEMU_MACHINES.contains(&machine).then(|| "QEMU".to_owned());
    }
    EMULATORS.iter().find(|(file, _)| *file == name).map(|(_, emulator)| (*emulator).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulators_are_known_by_their_files() {
        for (path, expected) in [
            ("/usr/libexec/valgrind/memcheck-amd64-linux", Some("valgrind (memcheck)")),
            ("/opt/valgrind/lib/valgrind/callgrind-x86-linux", Some("valgrind (callgrind)")),
            ("/usr/bin/qemu-x86_64-static", Some("QEMU")),
            ("/usr/bin/qemu-x86_64", Some("QEMU")),
            ("/usr/bin/qemu-system-x86_64", None),
            ("/run/rosetta/rosetta", Some("Rosetta")),
            ("/usr/bin/box64", Some("box64")),
            ("/home/me/app-amd64-linux", None),
            ("/home/me/qemu-", None),
            ("", None),
        ] {
            assert_eq!(named(path).as_deref(), expected, "{path}");
        }
    }
}
