//! The page of forecasts of data and routines on hosts and links.
//!
//! Next: `grid`, which finds the answer; docs/forecasts.md describes it.

use crate::output;
use std::fmt::Write as _;
use trimtab_controller::forecasts::grid::{Outlook, Quantity, StepKind, StepOutlook};
use trimtab_controller::forecasts::{GridAnswer, GridKind};

/// The lines.
pub fn page(answer: &GridAnswer) -> String {
    let mut text = String::new();
    let is_one = matches!(answer.asked, GridKind::Comm | GridKind::Total);
    for (place, at) in answer.answer.order.iter().enumerate() {
        let one = &answer.answer.alternatives[*at];
        let number = if is_one { String::new() } else { format!("{:>2}  ", place + 1) };
        let name = if answer.asked == GridKind::Comm { format!("to {}", one.name) } else { one.name.clone() };
        let _ = writeln!(text, "{number}{name}: {}", end_words(one));
    }
    let Some(best) = answer.best() else { return text };
    if answer.answer.is_choice_sure == Some(false) {
        text += "    the first one is not surely better: what it saves is less than its interval\n";
    }
    if !is_one {
        let _ = writeln!(text, "\n{}:", best.name);
    }
    let mut steps: Vec<&StepOutlook> = best.steps.iter().collect();
    steps.sort_by(|one, other| one.begins_s.total_cmp(&other.begins_s));
    steps.into_iter().for_each(|step| text += &step_line(step));
    if best.steps.len() > 1 {
        text += "  * the critical path: each of these waits for the one before it\n";
    }
    for line in &best.because {
        let _ = writeln!(text, "  {line}");
    }
    match best.oldest_age_s {
        Some(age_s) => {
            let _ = writeln!(text, "  the oldest figure is {} old", output::time(age_s));
        }
        None => text += "  figures are as given, without an age\n",
    }
    text
}

fn end_words(one: &Outlook) -> String {
    match (&one.end_s, &one.impossible, &one.no_claim) {
        (Some(end), ..) => in_words(end),
        (None, Some(why), _) => format!("impossible: {why}"),
        (None, None, why) => {
            let usual =
                one.usual_s.map_or_else(String::new, |usual| format!("; measured runs took about {}", seconds(usual)));
            format!("no time is said: {}{usual}", why.as_deref().unwrap_or("not known"))
        }
    }
}

fn in_words(quantity: &Quantity) -> String {
    match quantity.ends() {
        Some((lower, upper)) => {
            format!("{} (90%: {} to {})", seconds(quantity.value), seconds(lower), seconds(upper))
        }
        None => format!("{} (no interval)", seconds(quantity.value)),
    }
}

fn step_line(step: &StepOutlook) -> String {
    let mark = if step.is_critical { '*' } else { ' ' };
    let what = match step.kind {
        StepKind::Run => format!("{} on {}", step.what, step.hosts.join(" ")),
        StepKind::Send => {
            let megabytes = step.bytes.unwrap_or_default() / 1e6;
            format!("{} ({megabytes:.2} MB) {}", step.what, step.hosts.join(" -> "))
        }
    };
    format!(
        "{mark} {:>9} to {:>9}  {what}, {}\n",
        seconds(step.begins_s),
        seconds(step.ends_s.value),
        in_words(&step.takes_s)
    )
}

fn seconds(value: f64) -> String {
    match value {
        0.0 => "0 s".to_owned(),
        s if s < 1e-3 => format!("{:.1} us", 1e6 * s),
        s if s < 1.0 => format!("{:.1} ms", 1e3 * s),
        s if s < 10.0 => format!("{s:.2} s"),
        s => output::time(s),
    }
}
