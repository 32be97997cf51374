//! Which limit keeps a process from mapping more: of its address space, of memory that it locks, or the machine's own.
//!
//! A program that has called `mlockall` locks what is mapped for it, too, so that its limit for that counts.
//!
//! Next: `mapping`, which asks.

use trimtab_types::Pid;

/// The limit, with the command that raises it.
pub(crate) fn mapping_limit(pid: Pid, bytes: u64) -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    limit_of(pid, bytes, &read("limits"), &read("status"))
}

fn limit_of(pid: Pid, bytes: u64, limits: &str, status: &str) -> String {
    let is_over = |limit: &str, used: &str| {
        let (limit, used) = (soft(limits, limit)?, used_bytes(status, used)?);
        Some(used.saturating_add(bytes) > limit)
    };
    let locks = used_bytes(status, "VmLck").is_some_and(|locked| locked > 0);
    match () {
        () if is_over("Max address space", "VmSize") == Some(true) => {
            format!("raise its limit of address space (`prlimit --pid {pid} --as`) and try again")
        }
        () if locks && is_over("Max locked memory", "VmLck") == Some(true) => format!(
            "it locks all its memory (`mlockall`) and is at its limit for that; raise it (`prlimit --pid {pid} --memlock`) and \
             try again"
        ),
        () => {
            "the machine, or its control group, has no memory left for it; see /proc/meminfo, and free some".to_owned()
        }
    }
}

/// The soft limit of that name; `None`: there is none.
fn soft(limits: &str, name: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

fn used_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_is_reached_is_named() {
        let limits = |space: &str, locked: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max locked memory         {locked}              8388608              bytes     \n\
                 Max address space         {space}            unlimited            bytes     \n"
            )
        };
        let status = |size: u64, locked: u64| format!("Name:\tapp\nVmSize:\t{size} kB\nVmLck:\t{locked} kB\n");
        for (name, limits, status, expected) in [
            ("space", limits("1048576", "unlimited"), status(1000, 0), "--as"),
            ("locked", limits("unlimited", "1048576"), status(1000, 1000), "--memlock"),
            ("locks_nothing", limits("unlimited", "4096"), status(1000, 0), "no memory left"),
            ("room", limits("unlimited", "unlimited"), status(1000, 1000), "no memory left"),
            ("nothing_known", String::new(), String::new(), "no memory left"),
            (
                "not_numbers",
                limits("x", "y"),
                "VmSize:\t18446744073709551615 kB\nVmLck: z".to_owned(),
                "no memory left",
            ),
        ] {
            let said = limit_of(Pid(7), 1 << 20, &limits, &status);
            assert!(said.contains(expected), "{name}: {said}");
        }
    }
}
