//! `/proc/PID/status`: whose process is it, who traces it, and what restricts it?

use trimtab_types::Pid;

/// Facts of `/proc/PID/status`. Lines that a kernel lacks leave the value that means "no".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The process that this thread belongs to.
    pub process: Pid,
    /// The process that traces it.
    pub tracer: Option<Pid>,
    /// Real, effective, saved and file-system user.
    pub uids: [u32; 4],
    /// Real, effective, saved and file-system group.
    pub gids: [u32; 4],
    /// Effective capabilities, one bit each.
    pub capabilities: u64,
    /// System call filter.
    pub seccomp: Seccomp,
    /// True if the processor keeps a shadow stack for the thread, which forbids changing return addresses.
    pub shadow_stack: bool,
    /// Processors it may run on, as the kernel writes it ("0-3,8").
    pub cpus_allowed: String,
    /// Its pid in each nested pid namespace, ours first.
    pub namespace_pids: Vec<i32>,
}

/// The kind of system call filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seccomp {
    /// None.
    Off,
    /// Only read, write, exit and sigreturn.
    Strict,
    /// A filter program; system calls injected into the process may be refused.
    Filter,
}

/// `CAP_SYS_PTRACE`: may trace any process.
const CAPABILITY_TRACE: u32 = 19;

impl Status {
    /// True if the process may trace processes of other users.
    pub fn may_trace_all(&self) -> bool {
        self.capabilities >> CAPABILITY_TRACE & 1 == 1
    }
}

/// Reads the text; `None` if the process, user or group line is missing or wrong.
pub fn parse_status(bytes: &[u8]) -> Option<Status> {
    let text = String::from_utf8_lossy(bytes);
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim);
    let four = |key: &str| -> Option<[u32; 4]> {
        let numbers: Option<Vec<u32>> = value(key)?.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    let tracer = value("TracerPid").and_then(|word| word.parse().ok()).filter(|pid| *pid != 0).map(Pid);
    let features = value("x86_Thread_features").unwrap_or_default();
    let pids = value("NSpid").unwrap_or_default().split_ascii_whitespace();
    Some(Status {
        process: Pid(value("Tgid")?.parse().ok()?),
        tracer,
        uids: four("Uid")?,
        gids: four("Gid")?,
        capabilities: value("CapEff").and_then(|word| u64::from_str_radix(word, 16).ok()).unwrap_or(0),
        seccomp: seccomp(value("Seccomp")),
        shadow_stack: features.split_ascii_whitespace().any(|feature| feature == "shstk"),
        cpus_allowed: value("Cpus_allowed_list").unwrap_or_default().to_owned(),
        namespace_pids: pids.filter_map(|word| word.parse().ok()).collect(),
    })
}

fn seccomp(value: Option<&str>) -> Seccomp {
    match value {
        None | Some("0") => Seccomp::Off,
        Some("1") => Seccomp::Strict,
        Some(_) => Seccomp::Filter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "Name:\tapp\nState:\tS (sleeping)\nTgid:\t42\nPid:\t43\nPPid:\t1\nTracerPid:\t0\nUid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\nNSpid:\t42\t7\nCapEff:\t0000000000000000\nSeccomp:\t0\nSeccomp_filters:\t0\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n";

    fn plain() -> Status {
        Status {
            process: Pid(42),
            tracer: None,
            uids: [1000; 4],
            gids: [100; 4],
            capabilities: 0,
            seccomp: Seccomp::Off,
            shadow_stack: false,
            cpus_allowed: "0-3".to_owned(),
            namespace_pids: vec![42, 7],
        }
    }

    #[test]
    fn texts_are_read() {
        let cases = [
            ("plain", "", "", plain()),
            ("traced", "TracerPid:\t0", "TracerPid:\t99", Status { tracer: Some(Pid(99)), ..plain() }),
            ("filter", "Seccomp:\t0", "Seccomp:\t2", Status { seccomp: Seccomp::Filter, ..plain() }),
            ("strict", "Seccomp:\t0", "Seccomp:\t1", Status { seccomp: Seccomp::Strict, ..plain() }),
            ("no_seccomp_line", "Seccomp:\t0\n", "", plain()),
            (
                "capable",
                "CapEff:\t0000000000000000",
                "CapEff:\t0000000000080000",
                Status { capabilities: 1 << 19, ..plain() },
            ),
            ("setuid", "Uid:\t1000\t1000", "Uid:\t1000\t0", Status { uids: [1000, 0, 1000, 1000], ..plain() }),
            (
                "shadow_stack",
                "Seccomp:\t0\n",
                "x86_Thread_features:\tshstk wrss \nx86_Thread_features_locked:\tshstk wrss \n",
                Status { shadow_stack: true, ..plain() },
            ),
            (
                "shadow_stack_locked_off",
                "Seccomp:\t0\n",
                "x86_Thread_features:\t\nx86_Thread_features_locked:\tshstk \n",
                plain(),
            ),
        ];
        for (case, from, to, expected) in cases {
            let text = if from.is_empty() { TEXT.to_owned() } else { TEXT.replacen(from, to, 1) };
            assert_eq!(parse_status(text.as_bytes()), Some(expected), "{case}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for (case, text) in
            [("empty", ""), ("no_user", "Tgid:\t1\n"), ("three_users", "Tgid:\t1\nUid:\t1\t1\t1\nGid:\t1\t1\t1\t1\n")]
        {
            assert_eq!(parse_status(text.as_bytes()), None, "{case}");
        }
    }

    #[test]
    fn the_capability_bit_is_the_right_one() {
        let with = |bit: u32| Status { capabilities: 1 << bit, ..plain() }.may_trace_all();
        assert_eq!((with(18), with(19), with(20)), (false, true, false));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse_status(&bytes);
        }

        #[test]
        fn any_damage_is_survived(at in 0usize..260, byte in any::<u8>()) {
            let mut text = TEXT.as_bytes().to_vec();
            if let Some(place) = text.get_mut(at) {
                *place = byte;
            }
            let _ = parse_status(&text);
        }
    }
}
