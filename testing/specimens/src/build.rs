//! Builds a specimen once per MPI library and variant, into `target/specimens/<mpi>/<variant>/<program>`.
//!
//! Tests of several crates ask for the same file at the same time: a lock file lets one of them build, and the result
//! appears by rename, so that a running program keeps the file it was started from. A program is built anew when any
//! source file is newer than it.
//!
//! Next: `launch.rs` runs what this builds; `programs/` are the sources.

use crate::{Error, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// An MPI library of Debian's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mpi {
    /// MPICH; packages `mpich` and `libmpich-dev`.
    Mpich,
    /// Open MPI; packages `openmpi-bin` and `libopenmpi-dev`.
    OpenMpi,
}

impl Mpi {
    /// Both, for tests that go over them.
    pub const ALL: [Mpi; 2] = [Mpi::Mpich, Mpi::OpenMpi];

    /// "mpich" or "openmpi": the suffix of Debian's commands, and our folder.
    pub fn name(self) -> &'static str {
        match self {
            Mpi::Mpich => "mpich",
            Mpi::OpenMpi => "openmpi",
        }
    }

    pub(crate) fn development_package(self) -> &'static str {
        match self {
            Mpi::Mpich => "libmpich-dev",
            Mpi::OpenMpi => "libopenmpi-dev",
        }
    }

    pub(crate) fn launcher_package(self) -> &'static str {
        match self {
            Mpi::Mpich => "mpich",
            Mpi::OpenMpi => "openmpi-bin",
        }
    }
}

/// The program's function `measuremark` (`measuremark_` in Fortran) that `--mark` calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mark {
    /// It has none.
    #[default]
    Absent,
    /// Only the symbol table names it, so stripping hides it.
    Local,
    /// The dynamic symbols name it too, so stripping does not hide it.
    Exported,
}

/// How a specimen is compiled and linked. The default is what gcc does: PIE, symbols kept, no mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Linked at a fixed address (`-no-pie`).
    pub fixed_address: bool,
    /// No symbol table and no debug information (`-s`).
    pub stripped: bool,
    /// The function that marks iterations.
    pub mark: Mark,
    /// Linked with no shared library; only for programs without MPI.
    pub static_link: bool,
}

impl Variant {
    /// The folder of this variant, e.g. "pie", "fixed-stripped-exported".
    pub fn folder(&self) -> String {
        let mut parts = vec![if self.fixed_address { "fixed" } else { "pie" }];
        parts.extend(self.stripped.then_some("stripped"));
        parts.extend(self.static_link.then_some("static"));
        match self.mark {
            Mark::Absent => {}
            Mark::Local => parts.push("mark"),
            Mark::Exported => parts.push("exported"),
        }
        parts.join("-")
    }

    fn flags(&self) -> Vec<&'static str> {
        let mut flags = match (self.fixed_address, self.static_link) {
            (true, false) => vec!["-fno-pie", "-no-pie"],
            (false, false) => vec!["-fPIE", "-pie"],
            (true, true) => vec!["-fno-pie", "-static"],
            (false, true) => vec!["-fPIE", "-static-pie"],
        };
        flags.extend(self.stripped.then_some("-s"));
        flags.extend((self.mark != Mark::Absent).then_some("-DMARK"));
        flags.extend((self.mark == Mark::Exported).then_some("-rdynamic"));
        flags
    }
}

/// How the hazards are compiled: jumps, padding and prologues differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HazardVariant {
    /// Optimised, at any address.
    Optimised,
    /// For small code, at a fixed address: functions follow each other without padding.
    Small,
    /// Not optimised, with landing pads for indirect jumps.
    Plain,
}

impl HazardVariant {
    /// All of them.
    pub const ALL: [HazardVariant; 3] = [HazardVariant::Optimised, HazardVariant::Small, HazardVariant::Plain];

    fn folder(self) -> &'static str {
        match self {
            HazardVariant::Optimised => "hazards-optimised",
            HazardVariant::Small => "hazards-small",
            HazardVariant::Plain => "hazards-plain",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            HazardVariant::Optimised => &["-O2"],
            HazardVariant::Small => &["-Os", "-fno-pie", "-no-pie"],
            HazardVariant::Plain => &["-O0", "-fcf-protection=full"],
        }
    }
}

/// One specimen: what its file at `programs/` says at its top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of the program; its answer begins with it.
    pub name: &'static str,
    /// True if it is an MPI program.
    pub mpi: bool,
    language: Language,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
    Fortran,
}

const fn program(name: &'static str, mpi: bool, language: Language) -> Program {
    Program { name, mpi, language }
}

/// All specimens.
pub const PROGRAMS: [Program; 15] = [
    program("particle", true, Language::C),
    program("fft", true, Language::C),
    program("is", true, Language::C),
    program("cg", true, Language::C),
    program("ep", true, Language::C),
    program("wave", true, Language::C),
    program("kinds", true, Language::C),
    program("sleeper", true, Language::C),
    program("steady", true, Language::C),
    program("pong", true, Language::C),
    program("threads", true, Language::Cpp),
    program("heat", true, Language::Fortran),
    program("heat08", true, Language::Fortran),
    program("tiny", false, Language::C),
    program("plain", false, Language::C),
];

/// Builds specimen `program`, if it is not built already, and returns the executable's path.
///
/// # Errors
/// [`Error::UnknownProgram`], [`Error::WrongMpi`], [`Error::WrongVariant`] for a wrong request;
/// [`Error::MissingTool`] names the Debian package of a missing compiler; [`Error::Compile`], [`Error::Io`].
pub fn build(program: &str, mpi: Option<Mpi>, variant: &Variant) -> Result<PathBuf> {
    let program = PROGRAMS.iter().find(|known| known.name == program).ok_or_else(|| Error::UnknownProgram {
        name: program.to_owned(),
        known: PROGRAMS.map(|known| known.name).join(", "),
    })?;
    check_request(program, mpi, variant)?;
    let folder = target_folder().join(mpi.map_or("plain", Mpi::name)).join(variant.folder());
    let output = folder.join(program.name);
    make(&output, &source_folder().join("programs"), |temporary| {
        program.compile(mpi, variant, temporary).map(|command| vec![command])
    })
}

/// Builds the ground truth wrapper for one MPI library and returns the shared library to preload.
///
/// # Errors
/// As [`build`].
pub fn groundtruth(mpi: Mpi) -> Result<PathBuf> {
    let sources = source_folder().join("groundtruth");
    let output = target_folder().join(mpi.name()).join("libgroundtruth.so");
    make(&output, &sources, |temporary| {
        let mut command = compiler(Language::C, Some(mpi))?;
        command.args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
        command.arg(temporary).arg(sources.join("wrap.c")).arg("-pthread");
        Ok(vec![command])
    })
}

/// Builds the profiler that notes every MPI call of a program of others, under either library.
///
/// # Errors
/// As [`build`].
pub fn profiler() -> Result<PathBuf> {
    let sources = source_folder().join("groundtruth");
    make(&target_folder().join("plain").join("libtrace.so"), &sources, |temporary| {
        let mut command = compiler(Language::C, None)?;
        command.args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
        command.arg(temporary).arg(sources.join("trace.c"));
        Ok(vec![command])
    })
}

/// Builds a routine that is run at many sizes: "dgemm", "fftw" or "stream". The first two load their library as they begin.
///
/// # Errors
/// As [`build`].
pub fn routine(name: &str) -> Result<PathBuf> {
    let sources = source_folder().join("routines");
    make(&target_folder().join("plain").join("routines").join(name), &sources, |temporary| {
        let mut command = compiler(Language::C, None)?;
        command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o"]);
        command.arg(temporary).arg(sources.join(format!("{name}.c"))).args(["-lm", "-ldl"]);
        Ok(vec![command])
    })
}

/// Builds the hazards, and the library that one of them loads.
///
/// # Errors
/// As [`build`].
pub fn hazards(variant: HazardVariant) -> Result<(PathBuf, PathBuf)> {
    let sources = source_folder().join("hazards");
    let folder = target_folder().join("plain").join(variant.folder());
    let plugin = make(&folder.join("libplugin.so"), &sources, |temporary| {
        let mut command = compiler(Language::C, None)?;
        command.current_dir(&sources).args(["-O2", "-g", "-shared", "-fPIC", "-o"]).arg(temporary).arg("plugin.c");
        Ok(vec![command])
    })?;
    let program = make(&folder.join("hazards"), &sources, |temporary| {
        let mut command = compiler(Language::Cpp, None)?;
        command.current_dir(&sources).args(["-std=c++17", "-g", "-Wall", "-Wextra", "-Werror"]);
        // A function that never returns by itself is left by a jump.
        command.arg("-Wno-infinite-recursion").args(variant.flags());
        command.arg("-o").arg(temporary).args([
            "hazards.cpp",
            "flow.cpp",
            "tails.cpp",
            "faults.cpp",
            "walks.cpp",
            "processes.cpp",
            "assembly.S",
        ]);
        command.args(["-pthread", "-ldl"]);
        Ok(vec![command])
    })?;
    Ok((program, plugin))
}

impl Program {
    fn compile(&self, mpi: Option<Mpi>, variant: &Variant, output: &Path) -> Result<Command> {
        let sources = source_folder().join("programs");
        let mut command = compiler(self.language, mpi)?;
        command.current_dir(&sources).arg("-O2").args(variant.flags()).arg("-o").arg(output);
        match self.language {
            Language::C => command.args(["-std=gnu11", "-D_GNU_SOURCE"]).arg(format!("{}.c", self.name)),
            // Neither library's old C++ interface: it only brings warnings and symbols.
            Language::Cpp => command
                .args(["-std=c++17", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"])
                .arg(format!("{}.cpp", self.name)),
            Language::Fortran => {
                command.arg("-cpp").arg(format!("{}.f90", self.name)).arg(self.hooks(mpi)?);
                if variant.mark != Mark::Absent { command.arg("mark.f90") } else { &mut command }
            }
        };
        command.args(["-pthread", "-lm"]);
        if mpi.is_none() {
            // A function that it asks for is in a library that only some start it with.
            command.arg("-Wl,-z,dynamic-undefined-weak");
        }
        Ok(command)
    }

    /// The C part of the Fortran specimens, compiled apart because the Fortran driver takes no C options.
    fn hooks(&self, mpi: Option<Mpi>) -> Result<PathBuf> {
        let sources = source_folder().join("programs");
        make(&target_folder().join(mpi.map_or("plain", Mpi::name)).join("hooks.o"), &sources, |temporary| {
            let mut command = compiler(Language::C, mpi)?;
            command.args(["-O2", "-fPIC", "-c", "-o"]).arg(temporary).arg(sources.join("hooks.c"));
            Ok(vec![command])
        })
    }
}

fn check_request(program: &Program, mpi: Option<Mpi>, variant: &Variant) -> Result<()> {
    if program.mpi != mpi.is_some() {
        return Err(Error::WrongMpi { name: program.name.to_owned(), needs_mpi: program.mpi });
    }
    if variant.static_link && program.mpi {
        let reason = "Debian's MPI libraries need their plug-ins loaded at run time";
        return Err(Error::WrongVariant { name: program.name.to_owned(), variant: variant.folder(), reason });
    }
    Ok(())
}

/// The compiler of a language for an MPI library, after a look whether it is there.
fn compiler(language: Language, mpi: Option<Mpi>) -> Result<Command> {
    let (plain, wrapper, plain_package) = match language {
        Language::C => ("gcc", "mpicc", "gcc"),
        Language::Cpp => ("g++", "mpicxx", "g++"),
        Language::Fortran => ("gfortran", "mpifort", "gfortran"),
    };
    require(plain, plain_package)?;
    let Some(mpi) = mpi else { return Ok(Command::new(plain)) };
    let tool = format!("{wrapper}.{}", mpi.name());
    require(&tool, mpi.development_package())?;
    Ok(Command::new(tool))
}

/// Errs if command `tool` is not on the path.
pub(crate) fn require(tool: &str, package: &'static str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(tool).is_file()) {
        return Ok(());
    }
    Err(Error::MissingTool { tool: tool.to_owned(), package })
}

/// Makes `output` by the commands of `recipe` (which write to the path they get), unless it is newer than all files
/// in `sources`. One process at a time.
fn make(output: &Path, sources: &Path, recipe: impl FnOnce(&Path) -> Result<Vec<Command>>) -> Result<PathBuf> {
    let folder = output.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    let lock_path = output.with_extension("lock");
    let lock = File::create(&lock_path).map_err(Error::io("create", &lock_path))?;
    lock.lock().map_err(Error::io("lock", &lock_path))?;
    if is_current(output, sources)? {
        return Ok(output.to_owned());
    }
    let temporary = output.with_extension("new");
    for command in recipe(&temporary)? {
        run(command)?;
    }
    fs::rename(&temporary, output).map_err(Error::io("rename to", output))?;
    Ok(output.to_owned())
}

fn run(mut command: Command) -> Result<()> {
    let text = format!("{command:?}");
    let output = command.output().map_err(Error::io("run", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Compile { command: text, output: String::from_utf8_lossy(&output.stderr).into_owned() })
}

/// The recipe itself is a source too.
fn is_current(output: &Path, sources: &Path) -> Result<bool> {
    let Ok(made) = modified(output) else { return Ok(false) };
    let mut newest = modified(&source_folder().join("src/build.rs"))?;
    for entry in fs::read_dir(sources).map_err(Error::io("list", sources))? {
        let path = entry.map_err(Error::io("list", sources))?.path();
        newest = newest.max(modified(&path)?);
    }
    Ok(made > newest)
}

fn modified(path: &Path) -> Result<SystemTime> {
    fs::metadata(path).and_then(|facts| facts.modified()).map_err(Error::io("read", path))
}

fn source_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn target_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| source_folder().join("../../target")).join("specimens")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_tell_variants_apart() {
        let plain = Variant::default();
        let rows = [
            ("plain", plain, "pie"),
            ("fixed", Variant { fixed_address: true, ..plain }, "fixed"),
            ("stripped", Variant { stripped: true, mark: Mark::Exported, ..plain }, "pie-stripped-exported"),
            ("static", Variant { static_link: true, mark: Mark::Local, ..plain }, "pie-static-mark"),
        ];
        for (name, variant, folder) in rows {
            assert_eq!(variant.folder(), folder, "{name}");
        }
    }

    #[test]
    fn wrong_requests_say_what_to_do() {
        let plain = Variant::default();
        let static_link = Variant { static_link: true, ..plain };
        let rows = [
            ("unknown", build("nothing", None, &plain), "there are particle, fft"),
            ("mpi_missing", build("fft", None, &plain), "pass Some(Mpi::...)"),
            ("mpi_extra", build("tiny", Some(Mpi::Mpich), &plain), "pass None"),
            ("static_mpi", build("fft", Some(Mpi::Mpich), &static_link), "cannot be built as pie-static"),
            ("no_tool", require("mpicc.none", "libnone-dev").map(|()| PathBuf::new()), "apt-get install libnone-dev"),
        ];
        for (name, result, part) in rows {
            let text = result.map_or_else(|error| error.to_string(), |path| format!("{path:?}"));
            assert!(text.contains(part), "{name}: {text}");
        }
    }
}
