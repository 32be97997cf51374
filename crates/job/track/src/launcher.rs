//! Which processes start MPI programs? Known by the names of their programs.

use std::path::Path;

/// The kernel cuts a process's short name to this many bytes.
const COMMAND_BYTES_MAX: usize = 15;

/// A process's part in starting a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The program that a user starts: one per job.
    FrontEnd,
    /// Programs that a front end starts on each machine: daemons and proxies.
    Helper,
}

/// The part of a process, from its program (if that can be read) and its short name.
pub(crate) fn role(executable: Option<&Path>, command: &str) -> Option<Role> {
    let program = executable.and_then(Path::file_name).and_then(|name| name.to_str());
    let is = |names: &[&str]| names.iter().any(|name| program == Some(name) || command == cut(name));
    if is(FRONT_ENDS) {
        return Some(Role::FrontEnd);
    }
    is(HELPERS).then_some(Role::Helper)
}

/// True if the front end hands its tasks to daemons that are not its children.
pub(crate) fn is_slurm_front_end(command: &str) -> bool {
    command == "srun"
}

/// True if a launcher starts a program of this name on other machines, by a command of its own.
pub(crate) fn is_far_helper(name: &str) -> bool {
    HELPERS.contains(&name) && !is_slurm_step(name)
}

/// True if tasks below this process are those of a Slurm step.
pub(crate) fn is_slurm_step(command: &str) -> bool {
    command == "slurmstepd"
}

fn cut(name: &str) -> &str {
    name.get(..COMMAND_BYTES_MAX).unwrap_or(name)
}

const FRONT_ENDS: &[&str] = &[
    "mpirun",
    "mpiexec",
    "mpirun.openmpi",
    "mpiexec.openmpi",
    "mpirun.mpich",
    "mpiexec.mpich",
    "mpiexec.hydra",
    "mpirun_rsh",
    "orterun",
    "oshrun",
    "prterun",
    "prun",
    "srun",
    "aprun",
    "jsrun",
    "ibrun",
];

const HELPERS: &[&str] = &[
    "hydra_pmi_proxy",
    "hydra_bstrap_proxy",
    "pmi_proxy",
    "mpispawn",
    "orted",
    "prted",
    "prte",
    "slurmstepd",
    "palsd",
    "apinit",
    "apshepherd",
    "flux-shell",
    "flux-broker",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_follow_from_names() {
        #[rustfmt::skip]
        let cases = [
            ("alternatives_link", Some("/usr/bin/orterun"), "mpirun.openmpi", Some(Role::FrontEnd)),
            ("unreadable_program", None, "mpiexec.mpich", Some(Role::FrontEnd)),
            ("script", Some("/bin/bash"), "mpirun", Some(Role::FrontEnd)),
            ("proxy", Some("/usr/bin/hydra_pmi_proxy"), "hydra_pmi_proxy", Some(Role::Helper)),
            ("cut_name", None, "hydra_bstrap_pr", Some(Role::Helper)),
            ("step", None, "slurmstepd", Some(Role::Helper)),
            ("shell", Some("/bin/bash"), "bash", None),
            ("user_program", Some("/home/u/mpirun_study"), "mpirun_study", None),
            ("empty", None, "", None),
        ];
        for (case, executable, command, expected) in cases {
            assert_eq!(role(executable.map(Path::new), command), expected, "{case}");
        }
    }
}
