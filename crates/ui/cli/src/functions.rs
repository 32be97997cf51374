//! `functions`: what could be measured in a process.
//!
//! Next: `trimtab-engine`'s `code`, which judges them.

use crate::engine::Parts;
use crate::exit_code::{DONE, PARTIAL};
use crate::output;
use crate::points::say_why_nothing;
use trimtab_engine::{Functions, Listed, LookedInto, Nobody, TailExit, to_look_into};
use trimtab_types::Pid;

/// `trimtab functions PID [PATTERN]`.
pub fn list(pid: i32, pattern: &str, json: bool, only_process: bool) -> anyhow::Result<u8> {
    let (mut rows, mut found) = (Vec::new(), 0);
    let parts = Parts::of(None);
    let engine = parts.engine(&Nobody, None);
    let programs = to_look_into(Pid(pid), only_process)?;
    for program in &programs {
        let Functions { listed, unread } = engine.functions(program.pid, pattern)?;
        output::print_unread(&unread);
        found += listed.len();
        if json {
            rows.extend(listed.iter().map(|one| as_json(one, program)));
            continue;
        }
        if !program.ranks.is_empty() {
            output::print_text(&format!("process {}, {}", program.pid, program.name()))?;
        }
        output::print_text(&table(&listed, pattern))?;
    }
    if found == 0 {
        for program in &programs {
            say_why_nothing(engine.code_of_process(program.pid)?.why_no_function(pattern));
        }
    }
    if json {
        output::print_text(&serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(if found == 0 { PARTIAL } else { DONE })
}

fn as_json(one: &Listed, program: &LookedInto) -> serde_json::Value {
    serde_json::json!({
        "name": one.name,
        "module": one.module,
        "group": one.group,
        "chosen": one.chosen.map(|address| format!("{:#x}", address.0)),
        "measurable": one.refusal.is_none(),
        "reason": one.refusal,
        "pid": program.pid.0,
        "timed": one.refusal.is_none() && one.only_counted.is_none(),
        "not_timed_because": one.only_counted,
        "left_by_jumps": one.tails.iter().map(tail_as_json).collect::<Vec<_>>(),
    })
}

fn tail_as_json(tail: &TailExit) -> serde_json::Value {
    serde_json::json!({
        "to": tail.to,
        "followed": tail.unseen.is_none(),
        "not_followed_because": tail.unseen.as_ref().map(ToString::to_string),
    })
}

fn table(listed: &[Listed], pattern: &str) -> String {
    let longest = |width: fn(&Listed) -> usize| listed.iter().map(width).max().unwrap_or(0).min(48);
    let (name, module) = (longest(|one| one.name.len()), longest(|one| one.module.len()));
    let mut text = String::new();
    for one in listed {
        let mut verdict = verdict(one);
        if let Some(code) = one.chosen {
            verdict += &format!(" (indirect: this process runs the code at {:#x})", code.0);
        }
        text += &format!("{:name$}  {:module$}  {:5} {verdict}\n", one.name, one.module, one.group);
    }
    let refused = listed.iter().filter(|one| one.refusal.is_some()).count();
    let counted = listed.iter().filter(|one| one.only_counted.is_some()).count();
    let only_counted =
        if counted > 0 { format!(" ({counted} of them only counted, not timed)") } else { String::new() };
    let functions =
        if listed.len() == 1 { "1 function matches".into() } else { format!("{} functions match", listed.len()) };
    let can = listed.len() - refused;
    text += &format!("{functions} {pattern}, {can} can be measured{only_counted}, {refused} can't\n");
    text
}

fn verdict(one: &Listed) -> String {
    match (&one.refusal, &one.only_counted) {
        (Some(reason), _) => reason.clone(),
        (None, Some(reason)) => format!("can be counted but not timed: {reason}"),
        (None, None) => format!("measurable{}", behind_jumps(&one.tails)),
    }
}

/// Where calls end that leave their function by a jump.
fn behind_jumps(tails: &[TailExit]) -> String {
    let names = |followed: bool| {
        let mut names: Vec<&str> =
            tails.iter().filter(|tail| tail.unseen.is_none() == followed).map(|tail| tail.to.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    };
    let (followed, unseen) = (names(true), names(false));
    let mut text = String::new();
    if !followed.is_empty() {
        text += &format!("; calls that it leaves by a jump end where {followed} returns");
    }
    if !unseen.is_empty() {
        text += &format!("; of calls that it leaves by a jump to {unseen} the end is not seen");
    }
    text
}
