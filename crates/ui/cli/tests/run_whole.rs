//! `trimtab run --follow -- srun ...` inside of an allocation: Slurm's task prolog has each rank held, on all nodes, so that
//! calls, bytes and links are those that a profiler in the program sees. Where that can't be, the program runs as it is and what
//! was missed is said.
//!
//! Next: `site_whole.rs` for standing agents, `slurm.rs` for the plug-in, `first_call.rs` for one machine.

mod common_cluster;
mod common_truth;

use common_cluster::{Cluster, GROUP, USER, VARIABLES, agents, guards, make_user, on_nodes, wait_for};
use common_truth::{check_functions, check_links};
use std::fs;
use std::path::{Path, PathBuf};
use trimtab_specimens::{Mpi, Variant, build, groundtruth, skip, truths_of};
use trimtab_testbed::{Slurm, Testbed};
use trimtab_types::report::Report;

const NODES: usize = 2;
const TRIMTAB: &str = env!("CARGO_BIN_EXE_trimtab");
/// Begins the sentence that ranks may have begun before they can be held.
const MAY_BE_LATE: &str = "ranks on several machines may begin before they can be held";

#[test]
fn a_step_of_an_allocation_is_measured_from_its_first_call_on() {
    const TEST: &str = "a_step_of_an_allocation_is_measured_from_its_first_call_on";
    if let Some(lack) = Slurm::lack() {
        return skip(TEST, &lack.0);
    }
    let testbed = Testbed::up(Path::new(env!("CARGO_TARGET_TMPDIR")), NODES).expect("nodes come up");
    let slurm = Slurm::start(&testbed, 4).expect("Slurm starts");
    let cluster = Cluster { testbed: &testbed, slurm: &slurm };
    let home = make_user(&testbed);
    for (number, (mpi, nodes, ranks, program, words)) in [
        (Mpi::OpenMpi, NODES, 4, "kinds", "--iterations 40"),
        (Mpi::OpenMpi, NODES, 2, "heat", "--iterations 200"),
        (Mpi::Mpich, 1, 2, "kinds", "--iterations 40"),
    ]
    .into_iter()
    .enumerate()
    {
        let step = Step { cluster: &cluster, folder: home.join(number.to_string()), mpi, nodes, ranks };
        every_call_is_seen(&step, program, words);
    }
    who_asked_slurm_for_more_is_not_held(&cluster, &home);
    outside_of_an_allocation_it_is_said(&cluster);
    a_node_without_trimtab_harms_nobody(&cluster, &home);
    wait_for("no agent and no guard is left", || agents().is_empty() && guards().is_empty());
}

/// A step that `trimtab run` begins in a batch job of a user's.
struct Step<'a> {
    cluster: &'a Cluster<'a>,
    folder: PathBuf,
    mpi: Mpi,
    nodes: usize,
    ranks: u32,
}

impl Step<'_> {
    /// Runs a program so to its end; what trimtab and the program said, and the report.
    fn run(&self, options: &str, program: &str, words: &str) -> (String, Report) {
        let (said, code, report) = self.run_to_end(options, program, words);
        assert!(code <= 1, "{code}: {said}");
        let report = report.unwrap_or_else(|| panic!("no report: {said}"));
        (said, report)
    }

    /// As `run`, of which there is no report if the program ended before anybody came to measure it.
    fn run_to_end(&self, options: &str, program: &str, words: &str) -> (String, i32, Option<Report>) {
        fs::create_dir(&self.folder).expect("a folder");
        std::os::unix::fs::chown(&self.folder, Some(USER), Some(GROUP)).expect("the user's folder");
        let home = self.folder.parent().expect("the home");
        let mut sbatch = self.cluster.slurm.command("sbatch");
        sbatch.args([&format!("--nodes={NODES}"), "--ntasks-per-node=4"]);
        sbatch.args([&format!("--uid={USER}"), &format!("--gid={GROUP}"), &format!("--chdir={}", home.display())]);
        sbatch.arg(format!("--output={}/log", self.folder.display()));
        sbatch.arg("--wrap").arg(self.script(options, program, words));
        sbatch.envs(VARIABLES).env("HOME", home).env("PWD", home).env("XDG_DATA_HOME", home.join("data"));
        sbatch.env("XDG_STATE_HOME", home.join("state"));
        let output = sbatch.output().expect("sbatch runs");
        assert!(output.status.success(), "{output:?}");
        let code = || fs::read_to_string(self.folder.join("code")).ok()?.trim().parse::<i32>().ok();
        wait_for("the exit code of trimtab", || code().is_some());
        let said = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let code = code().unwrap_or_else(|| panic!("{output:?} {said}"));
        let report = fs::read_to_string(self.folder.join("json")).ok();
        (said, code, report.map(|report| serde_json::from_str(&report).expect("a report")))
    }

    /// Each rank writes down the environment that its program gets.
    fn script(&self, options: &str, program: &str, words: &str) -> String {
        let program = build(program, Some(self.mpi), &Variant::default()).expect("it builds");
        let program = program.canonicalize().expect("a file");
        let plugin = if self.mpi == Mpi::Mpich { "pmi2" } else { "pmix" };
        let wrapper = groundtruth(self.mpi).expect("the wrapper is built");
        let (name, way) =
            (wrapper.file_name().expect("a name").display(), wrapper.parent().expect("a folder").display());
        let (folder, count, ranks) = (self.folder.display(), self.nodes, self.ranks);
        let inner = format!(
            "env > \"{folder}/env$SLURM_PROCID\"; export LD_PRELOAD={name} LD_LIBRARY_PATH=\"{way}\" GT_OUT=\"{folder}/truth\"; \
             exec \"{}\" {words}",
            program.display()
        );
        format!(
            "timeout -k 1 80 '{TRIMTAB}' run --follow --json '{folder}/json' -- \
             srun {options} -N{count} -n{ranks} --mpi={plugin} sh -c '{inner}'; echo $? > '{folder}/code'"
        )
    }

    fn environments(&self) -> Vec<String> {
        let read = |rank| fs::read_to_string(self.folder.join(format!("env{rank}"))).expect("it was written");
        (0..self.ranks).map(read).collect()
    }
}

/// Calls, bytes and links equal the wrapper's, and the program sees nothing of how it was held.
fn every_call_is_seen(step: &Step<'_>, program: &str, words: &str) {
    let name = format!("{} {program} {} nodes", step.mpi.name(), step.nodes);
    let (said, report) = step.run("", program, words);
    let from = report.window.from_first_call.as_ref().expect("it is asked for");
    let all: Vec<u32> = (0..step.ranks).collect();
    assert_eq!((&from.ranks, from.missed.len()), (&all, 0), "{name}: {from:?} {said}");
    assert!(report.window.valid && report.window.begins_late.is_none(), "{name}: {:?}", report.warnings);
    assert!(!said.contains(MAY_BE_LATE), "{name}: {said}");
    let truths = truths_of(&step.folder.join("truth"), step.ranks).expect("the wrapper wrote");
    check_functions(&report, &truths, &name);
    check_links(&report, &truths, &name);
    for environment in step.environments() {
        assert!(
            !environment.contains("TASK_PROLOG") && !environment.contains("TRIMTAB_TASK_HOLD"),
            "{name}: {environment}"
        );
    }
}

/// A prolog of the user's is theirs, and runs.
fn who_asked_slurm_for_more_is_not_held(cluster: &Cluster<'_>, home: &Path) {
    let prolog = home.join("prolog");
    fs::write(&prolog, "#!/bin/sh\necho export MINE=1\n").expect("is written");
    fs::set_permissions(&prolog, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
    let step = Step { cluster, folder: home.join("own"), mpi: Mpi::OpenMpi, nodes: NODES, ranks: 2 };
    let option = format!("--task-prolog=\"{}\"", prolog.display());
    let (said, _) = step.run(&option, "particle", "--iterations 2000");
    assert!(said.contains(MAY_BE_LATE) && said.contains("the step has a task prolog of its own"), "{said}");
    assert!(step.environments().iter().all(|environment| environment.contains("MINE=1")), "{said}");
}

/// Without an allocation nobody knows beforehand which nodes it will be: who was missed is said.
fn outside_of_an_allocation_it_is_said(cluster: &Cluster<'_>) {
    let program = common_cluster::specimen("particle");
    let file = cluster.folder("outside.json");
    let mut command = cluster.trimtab(&["run", "--follow", "--json"]);
    command
        .arg(&file)
        .args(["--", "srun"])
        .args(cluster.srun_words(&program, &["--iterations", "2000"]))
        .envs(VARIABLES);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(MAY_BE_LATE) && said.contains("outside of an allocation"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("particle: checksum"), "{output:?}");
    let report: Report = serde_json::from_str(&fs::read_to_string(&file).expect("a report")).expect("a report");
    let from = report.window.from_first_call.as_ref().expect("it is asked for");
    assert_eq!(from.ranks.len() + from.missed.len(), NODES, "{from:?}");
    assert_eq!(report.window.begins_late.is_some(), !from.missed.is_empty(), "{from:?}");
}

/// The job's ranks ended before it was looked at, or while it was.
const NO_RANKS: &[&str] = &["no MPI rank of Slurm job", "has ended", "ended before"];

/// Slurm may end a task whose prolog can't be run, so it is not named there.
fn a_node_without_trimtab_harms_nobody(cluster: &Cluster<'_>, home: &Path) {
    let mount = |words: &[&str]| {
        let status = cluster.testbed.on(NODES, words[0]).args(&words[1..]).status();
        assert!(status.expect("it runs").success(), "{words:?}");
    };
    mount(&["mount", "--bind", "/bin/false", TRIMTAB]);
    let step = Step { cluster, folder: home.join("without"), mpi: Mpi::OpenMpi, nodes: NODES, ranks: 2 };
    let (said, code, report) = step.run_to_end("", "particle", "--iterations 2000");
    mount(&["umount", TRIMTAB]);
    assert!(said.contains(MAY_BE_LATE) && said.contains("can't be run on all nodes of the job"), "{said}");
    assert!(said.contains("particle: checksum"), "the program's own end: {said}");
    match report {
        Some(report) => assert!(code == 1 && !report.window.valid, "{code}: {:?}", report.warnings),
        None => assert!(code == 2 && NO_RANKS.iter().any(|word| said.contains(word)), "{code}: {said}"),
    }
    wait_for("nothing is left", || on_nodes(Path::new(TRIMTAB)).is_empty());
}
