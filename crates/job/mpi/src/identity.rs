//! Which rank of which job is a process, as its initial environment says?
//!
//! Launchers tell a process its rank in variables of their own, and a process inherits those of every launcher above
//! it: a batch step's variables reach all that the step starts, shells included. Therefore variables are tried from the
//! most specific to the least, a companion (size, local rank) of another launcher is believed only if that
//! launcher's rank agrees, and an identity alone does not prove a rank: the process must also have MPI mapped.
//!
//! Next: `trimtab-track` applies this to processes.

use crate::library::Family;
use std::collections::BTreeMap;

/// The facts about a process in its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Rank in its `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Number of ranks, where the launcher says so.
    pub size: Option<u32>,
    /// Rank among the ranks of this machine, where the launcher says so.
    pub local_rank: Option<u32>,
    /// The same for all ranks of a job that the launcher can tell apart; equal keys do not prove one job
    /// (Hydra has no job id in the environment), different keys prove two.
    pub job_key: String,
    /// The variable that gave the rank.
    pub source: &'static str,
    /// True if another MPI program started it (`MPI_Comm_spawn`).
    pub spawned: bool,
    /// The beginning of the key of the program that started it, where the launcher says so.
    pub parent: Option<String>,
}

/// The identity from the first variable that has one; `environ` is a block of `NAME=value` ended by zero bytes.
pub fn identify(environ: &[u8]) -> Option<Identity> {
    identify_all(environ).into_iter().next()
}

/// The identity for a process that has a library of this family mapped: its own launchers' variables go first, so
/// that an MPICH job started inside an Open MPI or PMIx step is not taken for that step, nor the other way round.
pub fn identify_for(environ: &[u8], family: Family) -> Option<Identity> {
    let mut identities = identify_all(environ);
    let foreign: &[&str] = match family {
        Family::Mpich => &["PMIX_RANK", "OMPI_COMM_WORLD_RANK"],
        Family::OpenMpi => &["PMI_RANK", "MV2_COMM_WORLD_RANK"],
        Family::Abi | Family::Unknown => &[],
    };
    identities.sort_by_key(|identity| rank_of_trust(identity.source, foreign));
    identities.into_iter().next()
}

/// Every identity that the environment has, most specific first.
pub fn identify_all(environ: &[u8]) -> Vec<Identity> {
    let variables = Variables::parse(environ);
    SCHEMES.iter().filter_map(|scheme| scheme.identity(&variables)).collect()
}

fn rank_of_trust(source: &str, foreign: &[&str]) -> u8 {
    match source {
        "SLURM_PROCID" => 2,
        source if foreign.contains(&source) => 1,
        _ => 0,
    }
}

struct Variables<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Variables<'a> {
    fn parse(environ: &'a [u8]) -> Variables<'a> {
        let pairs =
            environ.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='));
        let mut variables = BTreeMap::new();
        for (name, value) in pairs {
            variables.entry(name).or_insert(value);
        }
        Variables(variables)
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.0.get(name)?.parse().ok()
    }
}

/// One launcher's variables.
struct Scheme {
    rank: &'static str,
    /// Rank variable of the launcher that the companion belongs to, and the companion.
    size: &'static [(&'static str, &'static str)],
    local_rank: &'static [(&'static str, &'static str)],
    /// The first list of which all variables exist gives the key.
    keys: &'static [&'static [&'static str]],
}

impl Scheme {
    fn identity(&self, variables: &Variables) -> Option<Identity> {
        let rank = variables.number(self.rank)?;
        let companion = |candidates: &[(&str, &str)]| {
            let agreeing = candidates.iter().filter(|(owner, _)| variables.number(owner) == Some(rank));
            agreeing.filter_map(|(_, name)| variables.number(name)).next()
        };
        let size = companion(self.size).filter(|size| rank < *size);
        let local_rank = companion(self.local_rank);
        let parent = self.parent(variables);
        let spawned = parent.is_some() || (self.rank == "PMI_RANK" && variables.0.contains_key(SPAWNED));
        let job_key = self.job_key(variables, size, spawned);
        Some(Identity { rank, size, local_rank, job_key, source: self.rank, spawned, parent })
    }

    /// Open MPI tells a program that was spawned the port of rank 0 of the one that did it: `NAMESPACE.0:...`.
    fn parent(&self, variables: &Variables) -> Option<String> {
        let namespace = variables.0.get("OMPI_PARENT_PORT")?.split('.').next()?;
        (self.rank == "PMIX_RANK").then(|| format!("PMIX_NAMESPACE={namespace}"))
    }

    fn job_key(&self, variables: &Variables, size: Option<u32>, spawned: bool) -> String {
        let values = |names: &&[&str]| -> Option<Vec<String>> {
            names.iter().map(|name| Some(format!("{name}={}", variables.0.get(name)?))).collect()
        };
        let mut parts = self.keys.iter().find_map(values).unwrap_or_else(|| vec![format!("by={}", self.rank)]);
        // A requeued job runs again under the same ids.
        parts.extend(variables.0.get(RESTARTS).map(|count| format!("{RESTARTS}={count}")));
        // Hydra gives what was spawned no name of its own: it must not be taken for the program that spawned it.
        parts.extend((spawned && self.rank == "PMI_RANK").then(|| "spawned".to_owned()));
        parts.extend(size.map(|size| format!("size={size}")));
        parts.join(",")
    }
}

/// Hydra sets it for programs that `MPI_Comm_spawn` started.
const SPAWNED: &str = "PMI_SPAWNED";
/// Slurm sets it when it has requeued a job.
const RESTARTS: &str = "SLURM_RESTART_COUNT";
const SLURM_STEP: &[&str] = &["SLURM_JOB_ID", "SLURM_STEP_ID"];

/// Most specific first.
const SCHEMES: &[Scheme] = &[
    Scheme {
        rank: "PMIX_RANK",
        size: &[("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")],
        local_rank: &[("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"), ("SLURM_PROCID", "SLURM_LOCALID")],
        keys: &[&["PMIX_NAMESPACE"]],
    },
    Scheme {
        rank: "OMPI_COMM_WORLD_RANK",
        size: &[("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")],
        local_rank: &[("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")],
        keys: &[&["OMPI_MCA_ess_base_jobid"], &["OMPI_MCA_orte_hnp_uri"]],
    },
    Scheme {
        rank: "PMI_RANK",
        size: &[("PMI_RANK", "PMI_SIZE")],
        local_rank: &[
            ("PMI_RANK", "MPI_LOCALRANKID"),
            ("PMI_RANK", "PMI_LOCAL_RANK"),
            ("SLURM_PROCID", "SLURM_LOCALID"),
        ],
        keys: &[&["PMI_JOBID"], &["PALS_APID"], SLURM_STEP],
    },
    Scheme {
        rank: "MV2_COMM_WORLD_RANK",
        size: &[("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE")],
        local_rank: &[("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK")],
        keys: &[&["MPIRUN_ID"], SLURM_STEP],
    },
    Scheme {
        rank: "MPIRUN_RANK",
        size: &[("MPIRUN_RANK", "MPIRUN_NPROCS")],
        local_rank: &[],
        keys: &[&["MPIRUN_ID"], SLURM_STEP],
    },
    Scheme {
        rank: "PALS_RANKID",
        size: &[("PMI_RANK", "PMI_SIZE")],
        local_rank: &[("PALS_RANKID", "PALS_LOCAL_RANKID")],
        keys: &[&["PALS_APID"]],
    },
    Scheme { rank: "ALPS_APP_PE", size: &[], local_rank: &[], keys: &[&["ALPS_APP_ID"]] },
    Scheme {
        rank: "JSM_NAMESPACE_RANK",
        size: &[("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE")],
        local_rank: &[("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK")],
        keys: &[&["LSB_JOBID", "JSM_NAMESPACE_ID"], &["LSB_JOBID"]],
    },
    Scheme {
        rank: "FLUX_TASK_RANK",
        size: &[("FLUX_TASK_RANK", "FLUX_JOB_SIZE")],
        local_rank: &[("FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID")],
        keys: &[&["FLUX_JOB_ID"]],
    },
    Scheme {
        rank: "SLURM_PROCID",
        size: &[("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")],
        local_rank: &[("SLURM_PROCID", "SLURM_LOCALID")],
        keys: &[SLURM_STEP, &["SLURM_JOB_ID"]],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(variables: &[&str]) -> Vec<u8> {
        variables.iter().flat_map(|variable| variable.bytes().chain([0])).collect()
    }

    /// Rank, size, local rank, key, source.
    type Expected = (u32, Option<u32>, Option<u32>, &'static str, &'static str);

    struct Case {
        name: &'static str,
        environ: &'static [&'static str],
        expected: Option<Expected>,
    }

    #[rustfmt::skip]
    const CASES: &[Case] = &[
        Case { name: "nothing", environ: &["PATH=/bin", "HOME=/"], expected: None },
        Case { name: "open_mpi_4",
            environ: &["OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_RANK=1", "PMIX_NAMESPACE=1268449281", "PMIX_RANK=1"],
            expected: Some((1, Some(2), Some(1), "PMIX_NAMESPACE=1268449281,size=2", "PMIX_RANK")) },
        Case { name: "open_mpi_without_pmix",
            environ: &["OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=3", "OMPI_MCA_ess_base_jobid=77"],
            expected: Some((3, Some(4), None, "OMPI_MCA_ess_base_jobid=77,size=4", "OMPI_COMM_WORLD_RANK")) },
        Case { name: "hydra", environ: &["PMI_RANK=0", "PMI_FD=6", "PMI_SIZE=2", "MPI_LOCALRANKID=0"],
            expected: Some((0, Some(2), Some(0), "by=PMI_RANK,size=2", "PMI_RANK")) },
        Case { name: "slurm_pmi2", environ: &["PMI_RANK=5", "PMI_SIZE=8", "SLURM_JOB_ID=12", "SLURM_STEP_ID=0", "SLURM_PROCID=5", "SLURM_LOCALID=1"],
            expected: Some((5, Some(8), Some(1), "SLURM_JOB_ID=12,SLURM_STEP_ID=0,size=8", "PMI_RANK")) },
        Case { name: "slurm_pmix", environ: &["PMIX_RANK=2", "PMIX_NAMESPACE=slurm.pmix.12.0", "SLURM_PROCID=2", "SLURM_STEP_NUM_TASKS=4", "SLURM_LOCALID=0"],
            expected: Some((2, Some(4), Some(0), "PMIX_NAMESPACE=slurm.pmix.12.0,size=4", "PMIX_RANK")) },
        Case { name: "inherited_size_of_another_launcher", environ: &["PMIX_RANK=2", "PMIX_NAMESPACE=a", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1"],
            expected: Some((2, None, None, "PMIX_NAMESPACE=a", "PMIX_RANK")) },
        Case { name: "mvapich2", environ: &["MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_LOCAL_RANK=1"],
            expected: Some((1, Some(2), Some(1), "by=MV2_COMM_WORLD_RANK,size=2", "MV2_COMM_WORLD_RANK")) },
        Case { name: "mpirun_rsh", environ: &["MPIRUN_RANK=1", "MPIRUN_NPROCS=2", "MPIRUN_ID=9"],
            expected: Some((1, Some(2), None, "MPIRUN_ID=9,size=2", "MPIRUN_RANK")) },
        Case { name: "pals", environ: &["PALS_RANKID=3", "PALS_APID=x", "PALS_LOCAL_RANKID=1"],
            expected: Some((3, None, Some(1), "PALS_APID=x", "PALS_RANKID")) },
        Case { name: "alps", environ: &["ALPS_APP_PE=3", "ALPS_APP_ID=8"], expected: Some((3, None, None, "ALPS_APP_ID=8", "ALPS_APP_PE")) },
        Case { name: "jsm", environ: &["JSM_NAMESPACE_RANK=3", "JSM_NAMESPACE_SIZE=6", "JSM_NAMESPACE_LOCAL_RANK=1", "LSB_JOBID=5"],
            expected: Some((3, Some(6), Some(1), "LSB_JOBID=5,size=6", "JSM_NAMESPACE_RANK")) },
        Case { name: "flux", environ: &["FLUX_TASK_RANK=0", "FLUX_JOB_SIZE=2", "FLUX_TASK_LOCAL_ID=0", "FLUX_JOB_ID=f1"],
            expected: Some((0, Some(2), Some(0), "FLUX_JOB_ID=f1,size=2", "FLUX_TASK_RANK")) },
        Case { name: "slurm_alone", environ: &["SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=3", "SLURM_STEP_ID=1"],
            expected: Some((1, Some(2), None, "SLURM_JOB_ID=3,SLURM_STEP_ID=1,size=2", "SLURM_PROCID")) },
        Case { name: "spawned_by_hydra", environ: &["PMI_SPAWNED=1", "PMI_RANK=0", "PMI_SIZE=2"],
            expected: Some((0, Some(2), None, "by=PMI_RANK,spawned,size=2", "PMI_RANK")) },
        Case { name: "spawned_by_open_mpi", environ: &["OMPI_PARENT_PORT=2010578945.0:4171699868", "PMIX_NAMESPACE=2010578946", "PMIX_RANK=1"],
            expected: Some((1, None, None, "PMIX_NAMESPACE=2010578946", "PMIX_RANK")) },
        Case { name: "requeued", environ: &["PMI_RANK=0", "PMI_SIZE=2", "SLURM_JOB_ID=12", "SLURM_STEP_ID=0", "SLURM_RESTART_COUNT=1"],
            expected: Some((0, Some(2), None, "SLURM_JOB_ID=12,SLURM_STEP_ID=0,SLURM_RESTART_COUNT=1,size=2", "PMI_RANK")) },
        Case { name: "batch_script_is_not_as_large_as_its_allocation", environ: &["SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=3"],
            expected: Some((0, None, None, "SLURM_JOB_ID=3", "SLURM_PROCID")) },
        Case { name: "rank_is_no_number", environ: &["PMI_RANK=x", "SLURM_PROCID=-1"], expected: None },
        Case { name: "size_below_rank", environ: &["PMI_RANK=4", "PMI_SIZE=2"], expected: Some((4, None, None, "by=PMI_RANK", "PMI_RANK")) },
        Case { name: "first_of_two_counts", environ: &["PMI_RANK=1", "PMI_RANK=2"], expected: Some((1, None, None, "by=PMI_RANK", "PMI_RANK")) },
    ];

    #[test]
    fn environments_give_identities() {
        for case in CASES {
            let found = identify(&block(case.environ));
            let found = found.as_ref().map(|id| (id.rank, id.size, id.local_rank, id.job_key.as_str(), id.source));
            assert_eq!(found, case.expected, "{}", case.name);
        }
    }

    #[test]
    fn a_spawned_program_knows_its_parent_where_the_launcher_says_so() {
        let parent =
            |variables: &[&str]| identify(&block(variables)).map(|identity| (identity.spawned, identity.parent));
        let spawned = ["OMPI_PARENT_PORT=77.0:41", "PMIX_NAMESPACE=78", "PMIX_RANK=1"];
        assert_eq!(parent(&spawned), Some((true, Some("PMIX_NAMESPACE=77".to_owned()))));
        assert_eq!(parent(&["PMI_SPAWNED=1", "PMI_RANK=0"]), Some((true, None)));
        assert_eq!(parent(&["PMI_RANK=0"]), Some((false, None)));
    }

    #[test]
    fn the_order_is_the_documented_one() {
        let every: Vec<String> = SCHEMES.iter().map(|scheme| format!("{}=0", scheme.rank)).collect();
        let every: Vec<&str> = every.iter().map(String::as_str).collect();
        let order: Vec<_> = identify_all(&block(&every)).into_iter().map(|identity| identity.source).collect();
        let documented = [
            "PMIX_RANK",
            "OMPI_COMM_WORLD_RANK",
            "PMI_RANK",
            "MV2_COMM_WORLD_RANK",
            "MPIRUN_RANK",
            "PALS_RANKID",
            "ALPS_APP_PE",
            "JSM_NAMESPACE_RANK",
            "FLUX_TASK_RANK",
            "SLURM_PROCID",
        ];
        assert_eq!(order, documented);
    }

    #[test]
    fn a_library_prefers_its_own_launcher() {
        let nested = block(&["PMIX_RANK=0", "PMIX_NAMESPACE=outer", "PMI_RANK=3", "PMI_SIZE=4", "SLURM_PROCID=0"]);
        let cases = [
            ("hydra_inside_pmix_step", Family::Mpich, "PMI_RANK", 3),
            ("prte_inside_pmi_step", Family::OpenMpi, "PMIX_RANK", 0),
            ("unknown_library", Family::Unknown, "PMIX_RANK", 0),
        ];
        for (case, family, source, rank) in cases {
            let found = identify_for(&nested, family).map(|identity| (identity.source, identity.rank));
            assert_eq!(found, Some((source, rank)), "{case}");
        }
        let foreign_only = identify_for(&block(&["PMIX_RANK=1"]), Family::Mpich).map(|identity| identity.rank);
        assert_eq!(foreign_only, Some(1), "mpich_started_by_pmix");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = identify(&bytes);
        }

        #[test]
        fn any_rank_is_read_back(rank in 0u32..1_000_000, more in 1u32..1000) {
            let environ = format!("A=b\0PMI_RANK={rank}\0PMI_SIZE={}\0", rank + more);
            let found = identify(environ.as_bytes()).map(|identity| (identity.rank, identity.size));
            prop_assert_eq!(found, Some((rank, Some(rank + more))));
        }
    }
}
