//! `cargo xtask release`: one binary in `target/dist`, its checksums, and proof that it needs nothing but libc and that
//! what it copies into targets stays within itself.
//!
//! trimtab has to run where the job runs, on whatever a site has installed, so the list of shared libraries it may
//! need is closed and checked here. The symbol versions it needs tell the oldest system it starts on.
//!
//! Next: README.md for how it is installed.

use crate::{Outcome, setup, shell};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// The shared libraries the binary may need: those of the C library, there on every glibc system.
const LIBRARIES_ALLOWED: &[&str] =
    &["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"];
/// The files beside the binary.
const COMPANIONS: &[&str] = &["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// `cargo xtask release`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    if let Some(argument) = arguments.first() {
        bail!("release takes no argument, got `{argument}`");
    }
    setup::prepare()?;
    let root = shell::root()?;
    shell::run(&mut shell::cargo(&root, &["build", "--release", "--locked", "--package", "trimtab"]))?;
    let binary = root.join("target/release/trimtab");
    check_needs(&binary)?;
    check_stub(&root, &binary)?;
    let dist = root.join("target/dist");
    fill(&root, &binary, &dist)?;
    println!("written to {}:\n{}", shell::relative(&root, &dist), std::fs::read_to_string(dist.join("SHA256SUMS"))?);
    Ok(Outcome::Done)
}

fn check_needs(binary: &Path) -> Result<()> {
    let dynamic = shell::read(Command::new("readelf").args(["--dynamic", "--wide"]).arg(binary))?;
    let refused: Vec<String> =
        needed(&dynamic).into_iter().filter(|name| !LIBRARIES_ALLOWED.contains(&name.as_str())).collect();
    if !refused.is_empty() {
        bail!("trimtab needs {}: link it statically or drop it, sites do not have it", refused.join(", "));
    }
    let versions = shell::read(Command::new("readelf").args(["--version-info", "--wide"]).arg(binary))?;
    let oldest = newest_glibc(&versions).map_or("none".to_string(), |(major, minor)| format!("{major}.{minor}"));
    println!("needs {}; glibc {oldest} or newer", needed(&dynamic).join(", "));
    Ok(())
}

/// The code that is copied into targets was optimised together with all else: the tests of its bytes look at this
/// binary's.
fn check_stub(root: &Path, binary: &Path) -> Result<()> {
    let mut tests =
        shell::cargo(root, &["test", "--quiet", "--locked", "--package", "trimtab-stub", "--test", "section"]);
    shell::run(tests.env("TRIMTAB_STUB_IN", binary)).context("its code for targets is not fit to be copied")
}

/// Copies binary, licences and README, and writes the checksums of all. Parts of the binary that only a debugger wants
/// stay behind: three quarters of what would be copied to every node. Names of functions go along, for a panic's
/// trace.
fn fill(root: &Path, binary: &Path, dist: &Path) -> Result<()> {
    if dist.exists() {
        std::fs::remove_dir_all(dist).context("cannot empty target/dist")?;
    }
    std::fs::create_dir_all(dist).context("cannot create target/dist")?;
    shell::run(Command::new("strip").args(["--strip-debug", "-o"]).arg(dist.join("trimtab")).arg(binary))?;
    shell::run(Command::new(dist.join("trimtab")).arg("--version"))?;
    for name in COMPANIONS {
        std::fs::copy(root.join(name), dist.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    let sums = shell::read(Command::new("sha256sum").arg("trimtab").args(COMPANIONS).current_dir(dist))?;
    std::fs::write(dist.join("SHA256SUMS"), sums).context("cannot write SHA256SUMS")
}

/// The libraries named by readelf's `(NEEDED)` lines.
fn needed(dynamic: &str) -> Vec<String> {
    let lines = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_string())).collect()
}

/// The newest `GLIBC_a.b` the symbols ask for.
fn newest_glibc(versions: &str) -> Option<(u32, u32)> {
    let names = versions.split("GLIBC_").skip(1).map(|rest| rest.split_whitespace().next().unwrap_or_default());
    names
        .filter_map(|name| {
            let mut numbers = name.split('.').map(|part| part.parse().ok());
            Some((numbers.next()??, numbers.next()??))
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_read_from_readelf() {
        let dynamic = " 0x1 (NEEDED)  Shared library: [libgcc_s.so.1]\n 0x1 (NEEDED)  Shared library: [libc.so.6]\n 0xe (SONAME) [x]\n";
        assert_eq!(needed(dynamic), ["libgcc_s.so.1", "libc.so.6"]);
    }

    #[test]
    fn the_newest_symbol_version_counts() {
        for (name, text, expected) in [
            ("numeric order", "Name: GLIBC_2.9  Flags\nName: GLIBC_2.34  Flags\nGLIBC_2.2.5 x", Some((2, 34))),
            ("private", "Name: GLIBC_PRIVATE Flags", None),
            ("none", "", None),
        ] {
            assert_eq!(newest_glibc(text), expected, "{name}");
        }
    }

    #[test]
    fn a_binary_with_another_library_is_refused() {
        let own = std::env::current_exe().expect("a test has a path");
        check_needs(&own).expect("this test program needs only libc");
        let error = check_needs(Path::new("no-such-binary")).expect_err("not there").to_string();
        assert!(error.contains("no-such-binary"), "{error}");
    }
}
