//! The functions of OpenMP's runtimes that begin parallel regions and in which threads wait, and the names that compilers give
//! to the functions that they make of regions and tasks.
//!
//! Both runtimes are meant: GNU's (libgomp) and LLVM's (libomp, Intel's libiomp5), which has the names of the other one too.
//! Left out is what a thread calls to get its next piece of a loop: it waits for nobody there, and may call it so often
//! that the probes would cost more than the call.
//!
//! Next: `trimtab-measure`'s `node::regions` looks for them in a process.

/// The part of a function of the runtime in a parallel region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmpPart {
    /// It has a region run by a team, and returns when all threads are done.
    Region,
    /// It waits for all threads of the team.
    Barrier,
    /// It waits for a critical region, a lock or the turn before.
    Lock,
    /// It waits for tasks.
    Task,
    /// It waits for nobody, and a compiled region often ends in a jump to it: where it returns, that region's function has ended.
    End,
}

/// Each function of the runtimes that is measured in the group `omp`.
pub const OMP_RUNTIME: [(&str, OmpPart); 85] = [
    ("GOMP_parallel", OmpPart::Region),
    ("GOMP_parallel_reductions", OmpPart::Region),
    ("GOMP_parallel_sections", OmpPart::Region),
    ("GOMP_parallel_loop_static", OmpPart::Region),
    ("GOMP_parallel_loop_dynamic", OmpPart::Region),
    ("GOMP_parallel_loop_guided", OmpPart::Region),
    ("GOMP_parallel_loop_runtime", OmpPart::Region),
    ("GOMP_parallel_loop_nonmonotonic_dynamic", OmpPart::Region),
    ("GOMP_parallel_loop_nonmonotonic_guided", OmpPart::Region),
    ("GOMP_parallel_loop_nonmonotonic_runtime", OmpPart::Region),
    ("GOMP_parallel_loop_maybe_nonmonotonic_runtime", OmpPart::Region),
    ("__kmpc_fork_call", OmpPart::Region),
    ("__kmpc_fork_call_if", OmpPart::Region),
    ("GOMP_barrier", OmpPart::Barrier),
    ("GOMP_barrier_cancel", OmpPart::Barrier),
    ("GOMP_loop_end", OmpPart::Barrier),
    ("GOMP_loop_end_cancel", OmpPart::Barrier),
    ("GOMP_sections_end", OmpPart::Barrier),
    ("GOMP_sections_end_cancel", OmpPart::Barrier),
    ("GOMP_single_copy_start", OmpPart::Barrier),
    ("GOMP_single_copy_end", OmpPart::Barrier),
    ("GOMP_workshare_task_reduction_unregister", OmpPart::Barrier),
    ("__kmpc_barrier", OmpPart::Barrier),
    ("__kmpc_cancel_barrier", OmpPart::Barrier),
    ("__kmpc_reduce", OmpPart::Barrier),
    ("__kmpc_reduce_nowait", OmpPart::Barrier),
    ("__kmpc_end_reduce", OmpPart::Barrier),
    ("__kmpc_copyprivate", OmpPart::Barrier),
    ("GOMP_critical_start", OmpPart::Lock),
    ("GOMP_critical_name_start", OmpPart::Lock),
    ("GOMP_atomic_start", OmpPart::Lock),
    ("GOMP_ordered_start", OmpPart::Lock),
    ("GOMP_doacross_wait", OmpPart::Lock),
    ("GOMP_doacross_ull_wait", OmpPart::Lock),
    ("omp_set_lock", OmpPart::Lock),
    ("omp_set_lock_", OmpPart::Lock),
    ("omp_set_nest_lock", OmpPart::Lock),
    ("omp_set_nest_lock_", OmpPart::Lock),
    ("__kmpc_critical", OmpPart::Lock),
    ("__kmpc_critical_with_hint", OmpPart::Lock),
    ("__kmpc_ordered", OmpPart::Lock),
    ("__kmpc_doacross_wait", OmpPart::Lock),
    ("__kmpc_set_lock", OmpPart::Lock),
    ("__kmpc_set_nest_lock", OmpPart::Lock),
    ("GOMP_taskwait", OmpPart::Task),
    ("GOMP_taskwait_depend", OmpPart::Task),
    ("GOMP_taskgroup_end", OmpPart::Task),
    ("__kmpc_omp_taskwait", OmpPart::Task),
    ("__kmpc_omp_taskwait_51", OmpPart::Task),
    ("__kmpc_omp_wait_deps", OmpPart::Task),
    ("__kmpc_omp_taskwait_deps_51", OmpPart::Task),
    ("__kmpc_end_taskgroup", OmpPart::Task),
    ("__kmpc_taskloop", OmpPart::Task),
    ("__kmpc_taskloop_5", OmpPart::Task),
    ("GOMP_taskloop", OmpPart::Task),
    ("GOMP_taskloop_ull", OmpPart::Task),
    ("GOMP_atomic_end", OmpPart::End),
    ("GOMP_critical_end", OmpPart::End),
    ("GOMP_critical_name_end", OmpPart::End),
    ("GOMP_ordered_end", OmpPart::End),
    ("GOMP_loop_end_nowait", OmpPart::End),
    ("GOMP_sections_end_nowait", OmpPart::End),
    ("GOMP_doacross_post", OmpPart::End),
    ("GOMP_doacross_ull_post", OmpPart::End),
    ("GOMP_task", OmpPart::End),
    ("omp_unset_lock", OmpPart::End),
    ("omp_unset_lock_", OmpPart::End),
    ("omp_unset_nest_lock", OmpPart::End),
    ("omp_unset_nest_lock_", OmpPart::End),
    ("__kmpc_for_static_fini", OmpPart::End),
    ("__kmpc_dispatch_fini_4", OmpPart::End),
    ("__kmpc_dispatch_fini_4u", OmpPart::End),
    ("__kmpc_dispatch_fini_8", OmpPart::End),
    ("__kmpc_dispatch_fini_8u", OmpPart::End),
    ("__kmpc_doacross_post", OmpPart::End),
    ("__kmpc_doacross_fini", OmpPart::End),
    ("__kmpc_end_critical", OmpPart::End),
    ("__kmpc_end_ordered", OmpPart::End),
    ("__kmpc_end_reduce_nowait", OmpPart::End),
    ("__kmpc_end_single", OmpPart::End),
    ("__kmpc_end_master", OmpPart::End),
    ("__kmpc_end_masked", OmpPart::End),
    ("__kmpc_omp_task", OmpPart::End),
    ("__kmpc_unset_lock", OmpPart::End),
    ("__kmpc_unset_nest_lock", OmpPart::End),
];

/// Patterns of the names of functions that compilers make of regions and tasks: gcc's and gfortran's, clang's old and new
/// ones, clang's of tasks, flang's.
pub const OMP_BODIES: [&str; 5] =
    ["*._omp_fn.*", ".omp_outlined.*", "*.omp_outlined*", "*.omp_task_entry.*", "*..omp_par*"];

/// Functions of the runtimes that are given the function of a region or task, each with the number of that argument, counted
/// from 0: so regions are found in files without these names.
pub const OMP_GIVEN: [(&str, usize); 20] = [
    ("GOMP_parallel", 0),
    ("GOMP_parallel_reductions", 0),
    ("GOMP_parallel_sections", 0),
    ("GOMP_parallel_loop_static", 0),
    ("GOMP_parallel_loop_dynamic", 0),
    ("GOMP_parallel_loop_guided", 0),
    ("GOMP_parallel_loop_runtime", 0),
    ("GOMP_parallel_loop_nonmonotonic_dynamic", 0),
    ("GOMP_parallel_loop_nonmonotonic_guided", 0),
    ("GOMP_parallel_loop_nonmonotonic_runtime", 0),
    ("GOMP_parallel_loop_maybe_nonmonotonic_runtime", 0),
    ("GOMP_teams_reg", 0),
    ("GOMP_task", 0),
    ("GOMP_taskloop", 0),
    ("GOMP_taskloop_ull", 0),
    ("__kmpc_fork_call", 2),
    ("__kmpc_fork_call_if", 2),
    ("__kmpc_fork_teams", 2),
    ("__kmpc_omp_task_alloc", 5),
    ("__kmpc_omp_target_task_alloc", 5),
];

/// True if a library of this file name is a runtime of OpenMP.
pub fn is_omp_runtime(name: &str) -> bool {
    ["libgomp.", "libgomp-", "libomp.", "libiomp5."].iter().any(|begin| name.starts_with(begin))
}

/// True if a function that matches a pattern of [`OMP_BODIES`] is only a part of one.
pub fn is_fragment_of_body(name: &str) -> bool {
    name.contains(".cold")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_there_once() {
        let mut names: Vec<&str> = OMP_RUNTIME.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OMP_RUNTIME.len());
    }

    #[test]
    fn each_function_that_runs_regions_is_given_one() {
        let runs = OMP_RUNTIME.iter().filter(|(_, part)| *part == OmpPart::Region);
        let lacking: Vec<_> = runs.filter(|(name, _)| !OMP_GIVEN.iter().any(|(given, _)| given == name)).collect();
        assert!(lacking.is_empty(), "{lacking:?}");
    }
}
