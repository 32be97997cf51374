//! May this process be attached to? Asked before anything is touched, so that a refusal has a reason.

use crate::error::{Denial, Error};
use crate::procfs::{ElfKind, Processes};
use crate::status::Status;
use std::time::Duration;
use trimtab_types::Pid;
use trimtab_types::procfs::{Stat, State};

/// How many parents are followed to learn whether a process is our descendant; guards against a changing tree.
const ANCESTORS_MAX: usize = 256;
/// Looks at a process that is traced, and the time between them.
const LOOKS_MAX: usize = 50;
const LOOK_AGAIN: Duration = Duration::from_millis(11);
/// Short name of our own processes.
const OWN_COMMAND: &str = "trimtab";

/// Checks that `pid` lives, is a 64-bit x86 program, has no tracer, and that the system lets us trace it.
///
/// A container's or a security module's own rules can still refuse the attach itself.
///
/// # Errors
/// The first obstacle, with what to do about it.
pub fn check_attachable(processes: &dyn Processes, pid: Pid) -> Result<(), Error> {
    let stat = processes.stat(pid)?;
    check_alive(&stat)?;
    let status = processes.status(pid)?;
    let own = processes.status(processes.own_pid())?;
    check_users(&stat, &status, &own)?;
    check_machine(processes, pid)?;
    check_tracer(processes, pid, &status)?;
    check_ptrace_scope(processes, &stat, &own)
}

/// Refuses a process that has ended.
pub(crate) fn check_alive(stat: &Stat) -> Result<(), Error> {
    match stat.state {
        State::Zombie => Err(Error::Zombie { pid: stat.pid, command: stat.command.clone() }),
        State::Dead => Err(Error::NoSuchProcess { pid: stat.pid }),
        State::Running | State::Sleeping | State::DiskSleep | State::Stopped | State::TracingStop | State::Other(_) => {
            Ok(())
        }
    }
}

fn check_users(stat: &Stat, theirs: &Status, own: &Status) -> Result<(), Error> {
    let same = |theirs: &[u32; 4], own: u32| theirs[..3].iter().all(|id| *id == own);
    if own.may_trace_all() || (same(&theirs.uids, own.uids[3]) && same(&theirs.gids, own.gids[3])) {
        return Ok(());
    }
    let denial = Denial::OtherUser { uid: theirs.uids[1], own_uid: own.uids[1] };
    Err(Error::NotPermitted { pid: stat.pid, command: stat.command.clone(), denial })
}

fn check_machine(processes: &dyn Processes, pid: Pid) -> Result<(), Error> {
    let found = match processes.elf_kind(pid)? {
        ElfKind::X86_64 => return Ok(()),
        ElfKind::Bits32 => "a 32-bit program",
        ElfKind::OtherMachine => "a program for another processor",
        ElfKind::NotElf => "no ELF program",
    };
    Err(Error::WrongMachine { pid, program: processes.executable(pid)?, found })
}

/// A profiler traces a process for milliseconds, again and again: only one that stays is an obstacle.
fn check_tracer(processes: &dyn Processes, pid: Pid, status: &Status) -> Result<(), Error> {
    let mut found = untraced(processes, pid, status);
    for _ in 1..LOOKS_MAX {
        if !matches!(found, Err(Error::Traced { .. })) {
            break;
        }
        std::thread::sleep(LOOK_AGAIN);
        found = untraced(processes, pid, &processes.status(pid)?);
    }
    found
}

/// The tracer is a thread, which may have any name: its process is named. If it is gone, so is what it did.
fn untraced(processes: &dyn Processes, pid: Pid, status: &Status) -> Result<(), Error> {
    let Some(thread) = status.tracer else { return Ok(()) };
    let tracer = match processes.status(thread) {
        Ok(status) => status.process,
        Err(_) if processes.status(pid)?.tracer.is_none() => return Ok(()),
        Err(_) => thread,
    };
    let tracer_command = processes.stat(tracer).map_or_else(|_| "unknown".to_owned(), |stat| stat.command);
    if tracer_command == OWN_COMMAND {
        return Err(Error::Measured { pid, monitor: tracer });
    }
    Err(Error::Traced { pid, tracer, tracer_command })
}

fn check_ptrace_scope(processes: &dyn Processes, stat: &Stat, own: &Status) -> Result<(), Error> {
    let value = processes.ptrace_scope().unwrap_or(0);
    let allowed = match value {
        0 => true,
        1 => own.may_trace_all() || is_our_descendant(processes, stat),
        2 => own.may_trace_all(),
        _ => false,
    };
    if allowed {
        return Ok(());
    }
    Err(Error::NotPermitted { pid: stat.pid, command: stat.command.clone(), denial: Denial::PtraceScope { value } })
}

fn is_our_descendant(processes: &dyn Processes, stat: &Stat) -> bool {
    let own = processes.own_pid();
    let mut parent = stat.parent;
    for _ in 0..ANCESTORS_MAX {
        if parent == own {
            return true;
        }
        match processes.stat(parent) {
            Ok(stat) => parent = stat.parent,
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Recorded, RecordedProcess};

    const OWN: Pid = Pid(900);

    fn machine(target: impl FnOnce(&mut RecordedProcess), scope: Option<u8>, capable: bool) -> Recorded {
        let mut recorded = Recorded { own: OWN, ptrace_scope: scope, ..Recorded::default() };
        recorded.add(Pid(1), Pid(0), "init");
        recorded.add(OWN, Pid(1), "trimtab").status.capabilities = if capable { 1 << 19 } else { 0 };
        recorded.add(Pid(77), Pid(1), "gdb");
        recorded.add(Pid(78), Pid(1), "trimtab");
        recorded.add(Pid(79), Pid(1), "insert").status.process = Pid(78);
        target(recorded.add(Pid(50), Pid(1), "app"));
        recorded
    }

    fn message(recorded: &Recorded) -> String {
        check_attachable(recorded, Pid(50)).map_or_else(|error| error.to_string(), |()| "allowed".to_owned())
    }

    #[test]
    fn obstacles_are_named_with_a_next_step() {
        type Change = fn(&mut RecordedProcess);
        let other: Change = |process| process.status.uids = [7; 4];
        #[rustfmt::skip]
        let cases: &[(&str, Change, Option<u8>, bool, &str)] = &[
            ("free", |_| (), None, false, "allowed"),
            ("scope_0", |_| (), Some(0), false, "allowed"),
            ("other_user", other, None, false, "run trimtab as user 7 or as root"),
            ("other_user_but_capable", other, None, true, "allowed"),
            ("other_group", |process| process.status.gids = [7; 4], None, false, "not allowed"),
            ("setuid_program", |process| process.status.uids[1] = 0, None, false, "belongs to user 0"),
            ("zombie", |process| process.stat.state = State::Zombie, None, true, "zombie"),
            ("dead", |process| process.stat.state = State::Dead, None, true, "no process has pid 50"),
            ("bits_32", |process| process.elf_kind = ElfKind::Bits32, None, true, "a 32-bit program"),
            ("arm", |process| process.elf_kind = ElfKind::OtherMachine, None, true, "another processor"),
            ("traced", |process| process.status.tracer = Some(Pid(77)), None, true, "traced by 77 (gdb)"),
            ("traced_by_us", |process| process.status.tracer = Some(Pid(79)), None, true, "measured by trimtab process 78"),
            ("tracer_elsewhere", |process| process.status.tracer = Some(Pid(80)), None, true, "traced by 80 (unknown)"),
            ("scope_1", |_| (), Some(1), false, "ptrace_scope is 1"),
            ("scope_1_child", |process| process.stat.parent = OWN, Some(1), false, "allowed"),
            ("scope_1_capable", |_| (), Some(1), true, "allowed"),
            ("scope_2_child", |process| process.stat.parent = OWN, Some(2), false, "ptrace_scope is 2"),
            ("scope_2_capable", |_| (), Some(2), true, "allowed"),
            ("scope_3_capable", |_| (), Some(3), true, "ptrace_scope is 3"),
        ];
        for (case, change, scope, capable, expected) in cases {
            let found = message(&machine(change, *scope, *capable));
            assert!(found.contains(expected), "{case}: {found}");
        }
    }

    #[test]
    fn a_ring_of_parents_ends() {
        let recorded = machine(|process| process.stat.parent = Pid(50), Some(1), false);
        assert!(message(&recorded).contains("ptrace_scope is 1"));
    }
}
