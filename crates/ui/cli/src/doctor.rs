//! `trimtab doctor`: what trimtab can do on this node, what is missing, and how to mend it.
//!
//! Next: `doctor_facts` for what is looked at; docs/cluster.md for what a site needs.

use crate::arguments::site::DoctorOptions;
use crate::doctor_facts::{Facts, Validity};
use crate::exit_code::{DONE, ERROR, PARTIAL};
use crate::output;
use serde::Serialize;
use trimtab_engine::NoCounter;

/// The version of what `--json` prints.
const SCHEMA: u32 = 1;
/// The oldest kernel: the event of a process's end (pidfd) and pages that are empty in a forked child.
const KERNEL_MIN: (u32, u32) = (5, 3);
/// An identity that ends so soon is worth a word, unless it was made for less: then in the last quarter of its time.
const SOON_S: i64 = 14 * DAY_S;
const DAY_S: i64 = 24 * 3600;
const HOUR_S: i64 = 3600;
const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Ok,
    /// Some uses need more.
    Lacks,
    /// Nothing can be measured here.
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    /// The finding.
    found: String,
    /// The next step.
    remedy: Option<String>,
}

/// Looks at this node and says what it means.
pub fn examine(options: &DoctorOptions) -> anyhow::Result<u8> {
    let facts = Facts::gather(&options.site);
    let checks = checks(&facts);
    let worst = checks.iter().map(|check| check.state).max().unwrap_or(State::Ok);
    if options.json {
        let all = serde_json::json!({ "schema": SCHEMA, "host": facts.host, "state": worst, "checks": checks });
        output::print_text(&serde_json::to_string_pretty(&all)?)?;
    } else {
        output::print_text(&text(&checks))?;
    }
    Ok(match worst {
        State::Ok => DONE,
        State::Lacks => PARTIAL,
        State::Bad => ERROR,
    })
}

fn text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let lines = checks.iter().map(|check| {
        let state = match check.state {
            State::Ok => "ok",
            State::Lacks => "lacks",
            State::Bad => "BAD",
        };
        let remedy = check.remedy.as_ref().map(|remedy| format!("\n{:>1$}{remedy}", "", width + 9));
        format!("{state:5}  {:width$}  {}{}", check.name, check.found, remedy.unwrap_or_default())
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn checks(facts: &Facts) -> Vec<Check> {
    let always = [
        kernel(facts),
        tracing(facts),
        filter(facts),
        clock(facts),
        events(facts),
        capabilities(facts),
        mpi(facts),
        slurm(facts),
        audit(facts),
        paranoid(facts),
        locked(facts),
    ];
    always.into_iter().chain(identity(facts)).chain(controller(facts)).collect()
}

fn check(name: &'static str, state: State, found: impl Into<String>, remedy: Option<&str>) -> Check {
    Check { name, state, found: found.into(), remedy: remedy.map(str::to_owned) }
}

fn kernel(facts: &Facts) -> Check {
    let mut numbers = facts.kernel.split(|letter: char| !letter.is_ascii_digit()).map_while(|part| part.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let found = format!("Linux {} on {}", facts.kernel, std::env::consts::ARCH);
    match version >= KERNEL_MIN {
        true => check("kernel", State::Ok, found, None),
        false => check("kernel", State::Bad, found, Some("trimtab needs Linux 5.3 or newer")),
    }
}

fn has(facts: &Facts, capability: u32) -> bool {
    facts.capabilities >> capability & 1 == 1
}

fn tracing(facts: &Facts) -> Check {
    let may_all = has(facts, CAP_SYS_PTRACE);
    let (state, remedy) = match (facts.ptrace_scope.unwrap_or(0), may_all) {
        (0, _) | (1 | 2, true) => (State::Ok, None),
        (1, false) => (
            State::Lacks,
            Some(
                "only programs that trimtab itself started (`trimtab run`); as root: sysctl kernel.yama.ptrace_scope=0",
            ),
        ),
        (2, false) => (State::Bad, Some("only root may; as root: sysctl kernel.yama.ptrace_scope=0")),
        _ => (State::Bad, Some("nobody may until the next boot: take kernel.yama.ptrace_scope=3 out of /etc/sysctl.d")),
    };
    let whose = if may_all { "everybody's processes" } else { "own processes" };
    let scope = facts.ptrace_scope.map_or("no Yama".to_owned(), |scope| format!("ptrace_scope {scope}"));
    check("tracing", state, format!("{scope}; {whose}"), remedy)
}

fn filter(facts: &Facts) -> Check {
    match facts.seccomp {
        0 => check("system calls", State::Ok, "not filtered", None),
        mode => check(
            "system calls",
            State::Lacks,
            format!("filtered (seccomp mode {mode})"),
            Some(
                "filters of programs can't be read from under a filter: --seccomp-ok is your word that they pass; if \
                 attaching fails, run trimtab outside of the container, or allow it ptrace and process_vm_writev",
            ),
        ),
    }
}

fn clock(facts: &Facts) -> Check {
    let source = facts.clock.as_deref().unwrap_or("unknown");
    match facts.steady_counter {
        true => check("clock", State::Ok, format!("steady time-stamp counter; the kernel uses {source}"), None),
        false => check(
            "clock",
            State::Lacks,
            format!("the processor does not promise a steady counter; the kernel uses {source}"),
            Some("times of short calls may be off; on a virtual machine, let it see constant_tsc and nonstop_tsc"),
        ),
    }
}

fn events(facts: &Facts) -> Check {
    match &facts.no_events {
        None => check("process events", State::Ok, "told by the kernel (proc connector)", None),
        Some(reason) => check(
            "process events",
            State::Lacks,
            format!("not told by the kernel: {reason}"),
            Some(
                "`trimtab watch` looks at /proc instead and misses short programs; run it as root outside of containers",
            ),
        ),
    }
}

fn capabilities(facts: &Facts) -> Check {
    let agent = [
        ("CAP_SYS_PTRACE", CAP_SYS_PTRACE),
        ("CAP_SETUID", CAP_SETUID),
        ("CAP_SETGID", CAP_SETGID),
        ("CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH),
    ];
    let watch = [("CAP_NET_ADMIN", CAP_NET_ADMIN), ("CAP_SYS_ADMIN", CAP_SYS_ADMIN)];
    let missing = |wanted: &[(&'static str, u32)]| {
        let lacking = wanted.iter().filter(|(_, number)| !has(facts, *number)).map(|(name, _)| *name);
        lacking.collect::<Vec<_>>().join(", ")
    };
    let (agent, watch) = (missing(&agent), missing(&watch));
    let found = match (agent.as_str(), watch.as_str()) {
        ("", "") => "all that a standing agent and `trimtab watch` use".to_owned(),
        ("", watch) => format!("all that a standing agent uses; `trimtab watch` sees more with {watch}"),
        (agent, _) => format!("none beyond a user's; a standing agent would lack {agent}"),
    };
    // A user needs none of them.
    let state = if facts.uid == 0 && !agent.is_empty() { State::Lacks } else { State::Ok };
    let remedy =
        (state == State::Lacks).then_some("start it by packaging/trimtab-agent.service, or give it these capabilities");
    check("capabilities", state, found, remedy)
}

fn mpi(facts: &Facts) -> Check {
    let launchers = facts.programs.iter().filter(|name| name.starts_with("mpi"));
    let found: Vec<&str> = launchers.chain(&facts.mpi_libraries).map(String::as_str).collect();
    match found.is_empty() {
        false => check("MPI", State::Ok, found.join(", "), None),
        true => check(
            "MPI",
            State::Lacks,
            "neither a launcher in PATH nor a library that the loader knows",
            Some(
                "programs that bring their own MPI can be measured all the same; else: apt-get install mpich, or openmpi-bin",
            ),
        ),
    }
}

fn slurm(facts: &Facts) -> Check {
    let has_all = ["srun", "scontrol"].iter().all(|name| facts.programs.iter().any(|program| program == name));
    match (has_all, &facts.slurm) {
        (true, Some(version)) => check("Slurm", State::Ok, version.clone(), None),
        (true, None) => check(
            "Slurm",
            State::Lacks,
            "srun is there, but can't say its version",
            Some("is Slurm set up here? try `scontrol ping`"),
        ),
        (false, _) => check(
            "Slurm",
            State::Lacks,
            "srun or scontrol is not in PATH",
            Some("only `--slurm` needs them: run it on a login node, or: apt-get install slurm-client"),
        ),
    }
}

fn audit(facts: &Facts) -> Check {
    match &facts.audit {
        Some(Ok(path)) => check("audit log", State::Ok, path.clone(), None),
        Some(Err(why)) => {
            check("audit log", State::Bad, why.clone(), Some("name a file that can be written in TRIMTAB_AUDIT"))
        }
        None => check("audit log", State::Lacks, "not looked at", None),
    }
}

fn paranoid(facts: &Facts) -> Check {
    let Some(value) = facts.perf_event_paranoid else {
        let found = "no perf events in this kernel: --counters reads nothing, all else works".to_owned();
        return check("counters", State::Ok, found, None);
    };
    let (works, not): (Vec<_>, Vec<_>) = facts.counters.iter().partition(|(_, why)| why.is_none());
    let names = |some: &[&(&str, Option<NoCounter>)]| some.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let mut found = format!("perf_event_paranoid {value}; --counters can read {}", names(&works));
    if let Some((_, Some(why))) = not.first() {
        found += &format!("; not {} ({why})", names(&not));
    }
    check("counters", State::Ok, found, None)
}

fn locked(facts: &Facts) -> Check {
    let found = match facts.locked_kb_max {
        Some(kb) => format!("{kb} kB may be locked; trimtab locks none"),
        None => "any amount may be locked; trimtab locks none".to_owned(),
    };
    check("locked memory", State::Ok, found, None)
}

fn identity(facts: &Facts) -> Option<Check> {
    let identity = facts.identity.as_ref()?;
    let renew = "ask the site's administrators for a new one: trimtab site issue";
    Some(match &identity.state {
        Err(why) => check("identity", State::Lacks, format!("{}: {why}", identity.path), Some(renew)),
        Ok((role, validity)) if validity.left_s < 0 => {
            check("identity", State::Lacks, format!("{}: {role}, expired", identity.path), Some(renew))
        }
        Ok((role, Validity { left_s, lifetime_s })) => {
            let is_soon = *left_s < SOON_S.min(*lifetime_s as i64 / 4);
            let state = if is_soon { State::Lacks } else { State::Ok };
            let left = match left_s / DAY_S {
                0 | 1 => format!("{} hours", left_s / HOUR_S),
                days => format!("{days} days"),
            };
            let found = format!("{}: {role}, valid for {left}", identity.path);
            check("identity", state, found, (state == State::Lacks).then_some(renew))
        }
    })
}

fn controller(facts: &Facts) -> Option<Check> {
    Some(match facts.controller.as_ref()? {
        Ok(answer) => check("controller", State::Ok, answer.clone(), None),
        Err(refusal) => {
            let next = "is `trimtab controller` running there, and the way to its port open?";
            check("controller", State::Lacks, refusal.why.clone(), refusal.may_be_closed.then_some(next))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor_facts::IdentityFacts;

    fn healthy() -> Facts {
        Facts {
            kernel: "6.1.0-13-amd64".to_owned(),
            capabilities: u64::MAX,
            steady_counter: true,
            programs: ["mpiexec", "srun", "scontrol"].map(str::to_owned).to_vec(),
            slurm: Some("slurm-wlm 22.05.8".to_owned()),
            audit: Some(Ok("/var/log/trimtab/audit.jsonl".to_owned())),
            ..Facts::default()
        }
    }

    #[test]
    fn a_healthy_node_lacks_nothing() {
        let checks = checks(&healthy());
        assert!(checks.iter().all(|check| check.state == State::Ok && check.remedy.is_none()), "{checks:?}");
    }

    /// An identity of a user, in days.
    fn valid(left: i64, lifetime: i64) -> Result<(String, Validity), String> {
        Ok(("user 7".to_owned(), Validity { left_s: left * DAY_S, lifetime_s: (lifetime * DAY_S) as u64 }))
    }

    /// Such as security.md advises for users.
    #[test]
    fn an_identity_of_days_lacks_nothing_until_the_end_of_its_time() {
        for (left, lifetime, state) in
            [(1, 2, State::Ok), (7, 8, State::Ok), (1, 8, State::Lacks), (13, 366, State::Lacks)]
        {
            let facts = Facts {
                identity: Some(IdentityFacts { path: "/x".to_owned(), state: valid(left, lifetime) }),
                ..healthy()
            };
            assert_eq!(identity(&facts).expect("a row").state, state, "{left} of {lifetime} days");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy() {
        let identity = |state| Some(IdentityFacts { path: "/x".to_owned(), state });
        type Spoil<'a> = &'a dyn Fn(&mut Facts);
        let rows: [(&str, Spoil<'_>, State, &str); 13] = [
            ("kernel", &|facts| facts.kernel = "4.19.0".to_owned(), State::Bad, "5.3 or newer"),
            (
                "tracing",
                &|facts| (facts.ptrace_scope, facts.capabilities) = (Some(1), 0),
                State::Lacks,
                "ptrace_scope=0",
            ),
            ("tracing", &|facts| (facts.ptrace_scope, facts.capabilities) = (Some(2), 0), State::Bad, "only root"),
            ("tracing", &|facts| facts.ptrace_scope = Some(3), State::Bad, "next boot"),
            ("system calls", &|facts| facts.seccomp = 2, State::Lacks, "container"),
            ("clock", &|facts| facts.steady_counter = false, State::Lacks, "constant_tsc"),
            ("process events", &|facts| facts.no_events = Some("no".to_owned()), State::Lacks, "as root"),
            ("capabilities", &|facts| facts.capabilities = 0, State::Lacks, "trimtab-agent.service"),
            ("MPI", &|facts| facts.programs = vec!["srun".to_owned(), "scontrol".to_owned()], State::Lacks, "mpich"),
            ("Slurm", &|facts| facts.programs = vec!["mpirun".to_owned()], State::Lacks, "login node"),
            ("audit log", &|facts| facts.audit = Some(Err("full".to_owned())), State::Bad, "TRIMTAB_AUDIT"),
            ("identity", &|facts| facts.identity = identity(valid(3, 366)), State::Lacks, "site issue"),
            ("identity", &|facts| facts.identity = identity(valid(-1, 2)), State::Lacks, "site issue"),
        ];
        for (name, spoil, state, remedy) in rows {
            let mut facts = healthy();
            spoil(&mut facts);
            let checks = checks(&facts);
            let found = checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(found.state, state, "{found:?}");
            assert!(found.remedy.as_ref().is_some_and(|text| text.contains(remedy)), "{found:?}");
        }
    }

    #[test]
    fn a_user_needs_no_capability() {
        let facts = Facts { uid: 1000, capabilities: 0, ..healthy() };
        assert!(checks(&facts).iter().all(|check| check.state == State::Ok));
    }
}
