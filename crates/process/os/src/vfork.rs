//! Processes that share their memory with their parent: between `vfork` and `exec`.
//!
//! Stopping such a process stops only itself, so the parent's other threads would run on while its text is written, and
//! what was written would stay in the parent after the child's `exec`.
//!
//! Next: `trimtab-session` refuses them.

use std::fs;
use trimtab_types::Pid;

/// `KCMP_VM`: whether two processes have the same address space.
const KCMP_VM: libc::c_long = 1;

/// The parent of `pid`, if both have one address space. `None` as well where the kernel does not tell.
pub fn parent_sharing_memory(pid: Pid) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent: i32 = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    if parent == 0 {
        return None;
    }
    let (one, other) = (libc::c_long::from(pid.0), libc::c_long::from(parent));
    // SAFETY: kcmp only compares; it reads no memory of ours.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) };
    (order == 0).then_some(Pid(parent))
}
