//! `functions` and `undo`: what could be measured in a process, and taking out what was left in it.
//!
//! Next: `trimtab-session` for how functions are judged.

use crate::audited::Change;
use crate::{DONE, PARTIAL, output};
use anyhow::bail;
use trimtab_measure::{Listed, list_functions};
use trimtab_session::ImageCache;
use trimtab_session::leftover::{self, Leftover};
use trimtab_types::Pid;

/// `trimtab functions PID [PATTERN]`.
pub fn list(pid: i32, pattern: &str, json: bool) -> anyhow::Result<u8> {
    let listed = list_functions(Pid(pid), &ImageCache::of_user(), pattern)?;
    if json {
        let rows: Vec<serde_json::Value> = listed.iter().map(as_json).collect();
        output::print_text(&serde_json::to_string_pretty(&rows)?)?;
    } else {
        output::print_text(&table(&listed, pattern))?;
    }
    Ok(if listed.is_empty() { PARTIAL } else { DONE })
}

fn as_json(one: &Listed) -> serde_json::Value {
    serde_json::json!({
        "name": one.name,
        "module": one.module,
        "group": one.group,
        "measurable": one.refusal.is_none(),
        "reason": one.refusal,
    })
}

fn table(listed: &[Listed], pattern: &str) -> String {
    let longest = |width: fn(&Listed) -> usize| listed.iter().map(width).max().unwrap_or(0).min(48);
    let (name, module) = (longest(|one| one.name.len()), longest(|one| one.module.len()));
    let mut text = String::new();
    for one in listed {
        let verdict = one.refusal.as_deref().unwrap_or("measurable");
        text += &format!("{:name$}  {:module$}  {:5} {verdict}\n", one.name, one.module, one.group);
    }
    let refused = listed.iter().filter(|one| one.refusal.is_some()).count();
    text += &format!(
        "{} functions match {pattern}, {} can be measured, {refused} can't\n",
        listed.len(),
        listed.len() - refused
    );
    text
}

/// `trimtab undo PID`.
pub fn undo(pid: i32) -> anyhow::Result<u8> {
    let found = leftover::find(Pid(pid))?;
    let patches = match &found {
        Leftover::None => {
            output::print_text(&format!("process {pid} holds nothing of trimtab's"))?;
            return Ok(PARTIAL);
        }
        Leftover::Complete { patches, .. } => *patches,
        Leftover::Unfinished(_) => 0,
    };
    let change = Change::of_processes("undo", std::iter::once(Pid(pid)))?;
    let removal = change.around(|| leftover::undo(Pid(pid), &found))?;
    if !removal.foreign.is_empty() {
        bail!(
            "{} of {patches} places were changed by another tool meanwhile and were left as they are",
            removal.foreign.len()
        );
    }
    let left = removal.left_mapped_bytes;
    output::print_text(&format!(
        "process {pid}: {patches} places restored, {left} bytes left mapped, paused {:.0} us",
        removal.pause_ns_max as f64 / 1e3
    ))?;
    Ok(DONE)
}
