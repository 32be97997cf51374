//! Shared by the tests: specimens built by the system's compiler, and independent witnesses (nm, the program itself).
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_symbols::{Function, Image};
use trimtab_types::FileAddr;

/// Builds `tests/specimens/SOURCE` with `compiler` and `flags` into a file named after the test.
pub fn build(test: &str, compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
    let output = path(test);
    let specimens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/specimens");
    let mut command = Command::new(compiler);
    // Libraries stand behind the source that needs them, so flags come last.
    command.current_dir(&specimens).arg("-o").arg(&output).arg(source).args(flags);
    if compiler == "gfortran" {
        // Where it writes what it knows of modules; not beside the source.
        let modules = path(&format!("{test}.modules"));
        std::fs::create_dir_all(&modules).expect("folder");
        command.arg("-J").arg(modules);
    }
    run(&mut command);
    output
}

/// A place for a file of a test.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a tool on a copy of `input`, returns the copy.
pub fn processed(input: &Path, suffix: &str, tool: &str, arguments: &[&str]) -> PathBuf {
    let mut output = input.as_os_str().to_owned();
    output.push(suffix);
    let output = PathBuf::from(output);
    std::fs::copy(input, &output).expect("copy");
    run(Command::new(tool).args(arguments).arg(&output));
    output
}

/// Runs a command, which must succeed; returns what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; is it installed?"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn parse(path: &Path) -> (Vec<u8>, Image) {
    let bytes = read(path);
    let image = Image::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(image.problems, Vec::<String>::new(), "{}", path.display());
    (bytes, image)
}

/// The names by nm: address by name, of one kind of names (`tT` functions, `dD` data ...), and size where it has one.
pub fn nm(path: &Path, kinds: &str) -> BTreeMap<String, (FileAddr, u64)> {
    let text = run(Command::new("nm").args(["--format=posix", "--radix=x"]).arg(path));
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, kind, addr, rest @ ..] = fields.as_slice() else { return None };
        let size = rest.first().and_then(|size| u64::from_str_radix(size, 16).ok()).unwrap_or(0);
        let addr = u64::from_str_radix(addr, 16).ok()?;
        kinds.contains(*kind).then(|| (name.to_string(), (FileAddr(addr), size)))
    };
    text.lines().filter_map(row).collect()
}

/// The same file without section headers, as `sstrip` leaves it.
pub fn without_sections(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[40..48].fill(0);
    bytes[58..64].fill(0);
    bytes
}

pub fn named<'a>(image: &'a Image, name: &str) -> &'a Function {
    image.function_named(name).unwrap_or_else(|| panic!("no function {name}"))
}

pub fn addrs(functions: &[Function]) -> Vec<FileAddr> {
    functions.iter().map(|function| function.addr).collect()
}

pub type DebugVariant = (&'static str, &'static [&'static str], Option<(&'static str, &'static [&'static str])>);

/// Ways to compile with debugging information: (name, flags, tool and arguments run on the result).
pub const DEBUG_VARIANTS: &[DebugVariant] = &[
    ("dwarf4", &["-g", "-gdwarf-4", "-O0"], None),
    ("dwarf5", &["-g", "-gdwarf-5", "-O0"], None),
    ("dwarf4-O2", &["-g", "-gdwarf-4", "-O2"], None),
    ("dwarf5-O2", &["-g", "-gdwarf-5", "-O2"], None),
    ("dwarf3", &["-g", "-gdwarf-3", "-gstrict-dwarf", "-O0"], None),
    ("zlib", &["-g", "-O2", "-gz=zlib"], None),
    ("zstd", &["-g", "-O0"], Some(("objcopy", &["--compress-debug-sections=zstd"]))),
    ("type-units4", &["-g", "-gdwarf-4", "-fdebug-types-section", "-O0"], None),
    ("type-units5", &["-g", "-gdwarf-5", "-fdebug-types-section", "-O2"], None),
    ("split", &["-g", "-O2"], Some(("objcopy", &["--only-keep-debug"]))),
];

/// A specimen at fixed addresses, and the file with its debugging information, for each of [`DEBUG_VARIANTS`].
pub fn debug_variants(
    test: &str,
    compiler: &str,
    source: &str,
) -> impl Iterator<Item = (&'static str, PathBuf, PathBuf)> {
    DEBUG_VARIANTS.iter().map(move |(name, flags, tool)| {
        let program = build(&format!("{test}-{name}"), compiler, source, &[&["-no-pie"], *flags].concat());
        let debug = tool.map(|(tool, arguments)| processed(&program, ".debug", tool, arguments));
        (*name, program.clone(), debug.unwrap_or(program))
    })
}

/// Lines `KEY REST...` of a program's output, as (first word of the rest, what follows).
pub fn said<'o>(output: &'o str, key: &str) -> Vec<(&'o str, &'o str)> {
    let rest = output.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    rest.filter_map(|rest| rest.rsplit_once(' ')).collect()
}

/// The number of the line of a specimen that contains `text`.
pub fn line_of(source: &str, text: &str) -> u32 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/specimens").join(source);
    let content = std::fs::read_to_string(path).expect("specimen");
    let at = content.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{source}: no {text}"));
    u32::try_from(at + 1).expect("few lines")
}
