//! `cargo xtask setup`: the Debian packages that tests and the demo need, listed and installed.
//!
//! Needed ones are compilers and both MPIs; without the others (real applications), tests that use them are skipped
//! and say so. Deciding what to do is a pure function of what is installed and who we are; acting is one call.
//!
//! Next: `suite` and `demo`, which begin with [`prepare`].

use crate::{Outcome, shell};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::process::Command;

/// The need that a missing package leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing can be built or run.
    Always,
    /// Tests on real programs are skipped, loudly.
    RealPrograms,
}

/// Debian's names, in the order a person would expect.
const PACKAGES: &[(&str, Need)] = &[
    ("gcc", Need::Always),
    ("g++", Need::Always),
    ("gfortran", Need::Always),
    ("libc6-dev", Need::Always),
    ("make", Need::Always),
    ("binutils", Need::Always),
    ("gdb", Need::Always),
    ("mpich", Need::Always),
    ("libmpich-dev", Need::Always),
    ("openmpi-bin", Need::Always),
    ("libopenmpi-dev", Need::Always),
    ("hpcc", Need::RealPrograms),
    ("lammps", Need::RealPrograms),
    ("lammps-examples", Need::RealPrograms),
    ("netpipe-mpich2", Need::RealPrograms),
    ("python3-mpi4py", Need::RealPrograms),
    ("python3-numpy", Need::RealPrograms),
    ("iproute2", Need::RealPrograms),
    ("munge", Need::RealPrograms),
    ("slurmctld", Need::RealPrograms),
    ("slurmd", Need::RealPrograms),
    ("slurm-client", Need::RealPrograms),
    ("libslurm-dev", Need::RealPrograms),
    ("openssh-client", Need::RealPrograms),
    ("openssh-server", Need::RealPrograms),
    ("musl-tools", Need::RealPrograms),
    ("uftrace", Need::RealPrograms),
    ("dwz", Need::RealPrograms),
    ("golang-go", Need::RealPrograms),
];

/// The plan for the packages.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// All are there.
    Nothing,
    /// Install these.
    Install(Vec<&'static str>),
    /// Someone with the rights has to; the flag says whether nothing works without.
    Ask { packages: Vec<&'static str>, needed: bool },
    /// Not a Debian: nothing is known about its packages.
    OtherSystem,
}

/// `cargo xtask setup [--check]`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    let check_only = match arguments {
        [] => false,
        [option] if option == "--check" => true,
        [argument, ..] => bail!("setup takes only --check, got `{argument}`"),
    };
    let plan = make_plan()?;
    match &plan {
        Plan::Nothing => Ok(Outcome::Done),
        Plan::Install(packages) | Plan::Ask { packages, .. } if check_only => {
            println!("missing packages: {}", packages.join(" "));
            Ok(Outcome::Failed)
        }
        Plan::Install(packages) => install(packages).map(|()| Outcome::Done),
        Plan::Ask { packages, .. } => bail!("{}", request(packages)),
        Plan::OtherSystem => bail!("{}", other_system()),
    }
}

/// Sets the machine up for tests and demo; says what will be skipped where that is possible.
///
/// # Errors
/// When something needed is missing and we may not, or can not, install it.
pub fn prepare() -> Result<()> {
    match make_plan()? {
        Plan::Nothing => Ok(()),
        Plan::Install(packages) => install(&packages),
        Plan::Ask { packages, needed: true } => bail!("{}", request(&packages)),
        Plan::Ask { packages, needed: false } => {
            println!("{}\nGoing on without them.", request(&packages));
            Ok(())
        }
        Plan::OtherSystem => {
            println!("{}\nGoing on with what is here.", other_system());
            Ok(())
        }
    }
}

fn make_plan() -> Result<Plan> {
    let os_release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !is_debian(&os_release) {
        return Ok(Plan::OtherSystem);
    }
    let is_root = shell::read(Command::new("id").arg("-u"))?.trim() == "0";
    Ok(plan_for(&installed_packages()?, is_root))
}

fn plan_for(installed: &BTreeSet<String>, is_root: bool) -> Plan {
    let missing = || PACKAGES.iter().filter(|(name, _)| !installed.contains(*name));
    let packages: Vec<&str> = missing().map(|(name, _)| *name).collect();
    if packages.is_empty() {
        Plan::Nothing
    } else if is_root {
        Plan::Install(packages)
    } else {
        Plan::Ask { packages, needed: missing().any(|(_, need)| *need == Need::Always) }
    }
}

fn installed_packages() -> Result<BTreeSet<String>> {
    let mut query = Command::new("dpkg-query");
    query
        .args(["--show", "--showformat", "${Package} ${db:Status-Status}\\n"])
        .args(PACKAGES.iter().map(|(name, _)| name));
    // It exits 1 when it does not know one of the names, and still lists the others.
    let output = query.output().context("cannot start dpkg-query")?;
    Ok(parse_installed(&String::from_utf8_lossy(&output.stdout)))
}

fn parse_installed(listing: &str) -> BTreeSet<String> {
    listing.lines().filter_map(|line| line.strip_suffix(" installed")).map(str::to_string).collect()
}

fn is_debian(os_release: &str) -> bool {
    let fields = os_release.lines().filter_map(|line| line.split_once('='));
    let names = fields.filter(|(key, _)| matches!(*key, "ID" | "ID_LIKE")).map(|(_, value)| value.trim_matches('"'));
    names.flat_map(str::split_whitespace).any(|name| matches!(name, "debian" | "ubuntu"))
}

/// Installs the needed packages together, the others one by one: a release may lack one of them, and all that follows
/// is that tests are skipped.
fn install(packages: &[&str]) -> Result<()> {
    println!("installing missing packages: {}", packages.join(" "));
    let is_needed = |name: &str| PACKAGES.contains(&(name, Need::Always));
    let (needed, others): (Vec<&str>, Vec<&str>) = packages.iter().partition(|name| is_needed(name));
    let updated = shell::run(&mut apt_get(&["update"])).context("cannot fetch the list of packages");
    if !needed.is_empty() {
        updated?;
        shell::run(apt_get(&["install", "--yes", "--no-install-recommends"]).args(needed))?;
    }
    for name in others {
        if let Err(error) = shell::run(apt_get(&["install", "--yes", "--no-install-recommends"]).arg(name)) {
            println!("{name} is not to be had, tests that use it will be skipped: {error:#}");
        }
    }
    Ok(())
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["--quiet=2", "--option=DPkg::Lock::Timeout=120"])
        .args(arguments);
    command
}

fn request(packages: &[&str]) -> String {
    format!(
        "missing packages, and only root may install them. Next: sudo apt-get install --no-install-recommends {}",
        packages.join(" ")
    )
}

fn other_system() -> String {
    let names: Vec<&str> = PACKAGES.iter().map(|(name, _)| *name).collect();
    format!("not a Debian or Ubuntu. Next: install what these packages of Debian hold: {}", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_but(missing: &[&str]) -> BTreeSet<String> {
        PACKAGES.iter().map(|(name, _)| name.to_string()).filter(|name| !missing.contains(&name.as_str())).collect()
    }

    #[test]
    fn the_plan_follows_from_what_is_installed() {
        for (name, missing, is_root, expected) in [
            ("complete", &[][..], true, Plan::Nothing),
            ("root", &["mpich", "hpcc"][..], true, Plan::Install(vec!["mpich", "hpcc"])),
            ("user lacks MPI", &["mpich"][..], false, Plan::Ask { packages: vec!["mpich"], needed: true }),
            ("user lacks hpcc", &["hpcc"][..], false, Plan::Ask { packages: vec!["hpcc"], needed: false }),
        ] {
            assert_eq!(plan_for(&all_but(missing), is_root), expected, "{name}");
        }
    }

    #[test]
    fn only_installed_packages_count() {
        let listing = "gcc installed\nmake config-files\ngdb not-installed\nlibc6-dev installed\n";
        assert_eq!(parse_installed(listing).into_iter().collect::<Vec<_>>(), ["gcc", "libc6-dev"]);
    }

    #[test]
    fn debian_and_its_children_are_known() {
        for (name, text, expected) in [
            ("debian", "NAME=\"Debian\"\nID=debian\n", true),
            ("ubuntu", "ID=ubuntu\nID_LIKE=debian\n", true),
            ("mint", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", true),
            ("fedora", "ID=fedora\n", false),
            ("none", "", false),
        ] {
            assert_eq!(is_debian(text), expected, "{name}");
        }
    }

    #[test]
    fn requests_end_with_the_next_step() {
        assert!(request(&["mpich"]).ends_with("sudo apt-get install --no-install-recommends mpich"));
    }
}
