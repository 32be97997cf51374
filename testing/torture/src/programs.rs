//! The programs that are run: Debian's, at work that can be checked, none of them written by us; and one of ours,
//! which handles its faults in every way there is, because few of Debian's do.
//!
//! Each is a shell script in `programs/` with the files it needs; all are written into a folder of their own and run
//! there. The output of a script depends on its input only: never on time, addresses or chance.
//!
//! Next: `run` starts them.

use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// One program at work.
#[derive(Debug)]
pub struct Program {
    /// Short name.
    pub name: &'static str,
    /// Files without which it can't run; any word of an entry's alternatives (`|`) will do.
    needs: &'static [&'static str],
    /// The package to install where it lacks.
    package: &'static str,
    /// The script, and its other files.
    files: &'static [(&'static str, &'static str)],
    /// Made by [`Program::prepare`].
    generated: Generated,
}

/// Programs of so many functions or so long runs that they get more time, and how many times as much.
const LARGE: &[&str] = &["gcc", "gdb", "node", "java", "postgres", "lammps"];
const LARGE_SHARES: u32 = 2;
/// Programs that end with another status than 0 when all is well.
const OTHER_STATUS: &[(&str, i32)] = &[("java", 3)];

#[derive(Debug, PartialEq, Eq)]
enum Generated {
    Nothing,
    /// `input`: text that compresses.
    Text,
    /// `big.c`: a long C file.
    Source,
}

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../programs/", $name)))
    };
}

use Generated::{Nothing, Source, Text};

const MPI: &str = "/usr/bin/mpirun.openmpi";

/// All programs.
pub(crate) const PROGRAMS: &[Program] = &[
    row("python", &["/usr/bin/python3"], "python3", &[file!("python.sh"), file!("work.py")], Nothing),
    row(
        "python-tests",
        &["/usr/lib/python3.11/test/test_json/__init__.py"],
        "libpython3.11-testsuite",
        &[file!("python-tests.sh")],
        Nothing,
    ),
    row("gcc", &["/usr/bin/gcc", "/usr/bin/g++"], "g++", &[file!("gcc.sh"), file!("templates.cc")], Source),
    row("faults", &["/usr/bin/g++"], "g++", &[file!("faults.sh"), file!("faults.cc")], Nothing),
    row("sqlite", &["/usr/bin/sqlite3"], "sqlite3", &[file!("sqlite.sh"), file!("work.sql")], Nothing),
    row("xz", &["/usr/bin/xz"], "xz-utils", &[file!("xz.sh")], Text),
    row("gzip", &["/usr/bin/gzip|/bin/gzip"], "gzip", &[file!("gzip.sh")], Text),
    row("bzip2", &["/usr/bin/bzip2|/bin/bzip2"], "bzip2", &[file!("bzip2.sh")], Text),
    row("openssl", &["/usr/bin/openssl"], "openssl", &[file!("openssl.sh")], Text),
    row("perl", &["/usr/bin/perl"], "perl", &[file!("perl.sh"), file!("work.pl")], Nothing),
    row("git", &["/usr/bin/git"], "git", &[file!("git.sh")], Text),
    row("gdb", &["/usr/bin/gdb", "/usr/bin/python3.11"], "gdb", &[file!("gdb.sh")], Nothing),
    row("bash", &["/bin/bash"], "bash", &[file!("bash.sh"), file!("work.sh")], Nothing),
    row("tclsh", &["/usr/bin/tclsh"], "tcl", &[file!("tclsh.sh"), file!("work.tcl")], Nothing),
    row("node", &["/usr/bin/node"], "nodejs", &[file!("node.sh"), file!("work.js")], Nothing),
    row("java", &["/usr/bin/java"], "openjdk-17-jdk-headless", &[file!("java.sh"), file!("Work.java")], Nothing),
    row(
        "postgres",
        &["/usr/lib/postgresql/15/bin/initdb|/usr/lib/postgresql/17/bin/initdb"],
        "postgresql",
        &[file!("postgres.sh")],
        Nothing,
    ),
    row("nginx", &["/usr/sbin/nginx", "/usr/bin/curl"], "nginx curl", &[file!("nginx.sh"), file!("nginx.conf")], Text),
    row("hpcc", &["/usr/bin/hpcc", MPI], "hpcc", &[file!("hpcc.sh"), file!("hpccinf.txt")], Nothing),
    row("lammps", &["/usr/bin/lmp", MPI], "lammps", &[file!("lammps.sh"), file!("in.melt")], Nothing),
];

/// Their names.
pub const NAMES: [&str; PROGRAMS.len()] = {
    let mut names = [""; PROGRAMS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = PROGRAMS[index].name;
        index += 1;
    }
    names
};

const fn row(
    name: &'static str,
    needs: &'static [&'static str],
    package: &'static str,
    files: &'static [(&'static str, &'static str)],
    generated: Generated,
) -> Program {
    Program { name, needs, package, files, generated }
}

/// Lines of [`Text`] input.
const INPUT_LINES: u64 = 25_000;
/// Functions of [`Source`].
const SOURCE_FUNCTIONS: u64 = 350;

impl Program {
    /// Its exit status when all is well.
    pub(crate) fn status(&self) -> i32 {
        OTHER_STATUS.iter().find(|(name, _)| *name == self.name).map_or(0, |(_, status)| *status)
    }

    /// Why it can't run here, with what to install; `None`: it can.
    pub fn lacks(&self) -> Option<String> {
        let is_there = |need: &&str| need.split('|').any(|path| Path::new(path).exists());
        let missing = self.needs.iter().find(|need| !is_there(need))?;
        Some(format!("{missing} is not there. Next: apt-get install {}", self.package))
    }

    /// Shares of all time it gets.
    pub fn shares(&self) -> u32 {
        if LARGE.contains(&self.name) { LARGE_SHARES } else { 1 }
    }

    /// The script it is started by.
    pub fn script(&self) -> &'static str {
        self.files[0].0
    }

    /// Writes its files into `folder`, which a server that runs as another user may write to as well.
    pub fn prepare(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).context("cannot open the folder")?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        for (name, text) in self.files {
            write(name, text)?;
        }
        match self.generated {
            Nothing => Ok(()),
            Text => write("input", &text()),
            Source => write("big.c", &source()),
        }
    }
}

/// Words in an order that is always the same.
fn text() -> String {
    const WORDS: [&str; 12] =
        ["the", "tab", "turns", "rudder", "ship", "wind", "north", "sail", "current", "harbour", "night", "keel"];
    let mut random = crate::Random::new(1);
    let mut line = |number: u64| {
        let mut line = format!("{number:06}");
        for _ in 0..random.below(12) {
            line.push(' ');
            line.push_str(WORDS[random.below(12) as usize]);
        }
        format!("{line} {:x}\n", random.bits())
    };
    (0..INPUT_LINES).map(&mut line).collect()
}

/// Loops, switches, calls and arithmetic in an order that is always the same.
fn source() -> String {
    let mut random = crate::Random::new(2);
    let mut text = String::from(
        "struct s { int a; double b; struct s *next; unsigned char c[16]; };\nint f0(struct s *p, int n) { return n; }\n",
    );
    for number in 1..SOURCE_FUNCTIONS {
        let (callee, a, b, c) = (random.below(number), random.below(97), random.below(31) + 2, random.below(1000));
        text.push_str(&format!(
            "int f{number}(struct s *p, int n) {{\n  int r = n * {a}; double d = p->b;\n  for (int i = 0; i < n % {b}; i++) {{\n    \
             r ^= p->c[(i + {a}) & 15] << (i % {b}); d = d * {c}.5 + r;\n    if (r > {c}) p = p->next; else r += f{callee}(p, i);\n  }}\n  \
             switch (r % 7) {{ case 0: return r; case 1: r += {a}; case 2: p->a = r; break; case 3: d /= {b}; break; case 5: r = (int)d; }}\n  \
             return r + (int)d + p->a % {b};\n}}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_each_time_and_names_differ() {
        assert_eq!((text(), source()), (text(), source()));
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROGRAMS.len());
    }

    #[test]
    fn what_lacks_is_said_with_its_package() {
        let program = row("none", &["/no/such|/nor/such"], "nothing", &[], Nothing);
        let reason = program.lacks().expect("is not there");
        assert!(reason.contains("/no/such") && reason.ends_with("apt-get install nothing"), "{reason}");
        assert_eq!(row("sh", &["/no/such|/bin/sh"], "x", &[], Nothing).lacks(), None);
    }
}
