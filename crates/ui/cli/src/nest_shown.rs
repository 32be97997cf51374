//! The nest of loops as text and as JSON.
//!
//! Next: `nest`, which finds it; docs/loops.md.

use serde_json::{Value, json};
use std::fmt::Write as _;
use trimtab_engine::{
    FoundLoop, FoundLoops, LoopCount, LoopCourse, LoopPasses, NEST_SECONDS, PASSES_MIN, SampledCourse, name_ranks,
};

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;
/// Widest column for places.
const PLACE_COLUMNS_MAX: usize = 60;

/// The columns of one loop.
struct Row {
    place: String,
    passes: Option<(u64, u64)>,
    /// Seconds from one pass to the next, on the rank that has passed it most.
    pass_s: Option<f64>,
    mpi_calls_per_pass: Option<f64>,
    why_not: Option<String>,
}

impl Row {
    fn of(one: &FoundLoop) -> Self {
        let count = one.count.as_ref();
        let why_not = count.and_then(|count| count.not_counted.as_ref());
        let why_not = why_not.map(|why| match count.and_then(|count| count.witnessed) {
            Some(0) => format!("{why}; it was not passed, because nothing that leads through it was"),
            _ => why.to_string(),
        });
        let ranks: Vec<LoopPasses> = count.map_or(Vec::new(), |count| count.ranks.values().copied().collect());
        let numbers = || ranks.iter().map(|rank| rank.passes);
        let passes = numbers().min().zip(numbers().max()).filter(|_| why_not.is_none());
        let most = ranks.iter().max_by_key(|rank| rank.passes).filter(|rank| rank.passes > 1 && why_not.is_none());
        let between = |rank: &LoopPasses| (rank.passes - 1) as f64;
        Row {
            place: place(one),
            passes,
            pass_s: most.map(|rank| rank.span_ns as f64 / 1e9 / between(rank)),
            mpi_calls_per_pass: most.and_then(|rank| Some(rank.mpi_calls? as f64 / between(rank))),
            why_not,
        }
    }
}

/// How far a loop was on all ranks when its passes had been counted.
#[derive(Default)]
struct Progress {
    /// Passes completed, on the rank with the fewest.
    done: Option<u64>,
    /// Passes to come, on the rank with the most.
    remaining: Option<u64>,
    total: Option<u64>,
    total_at_most: Option<u64>,
    explanation: String,
}

impl Progress {
    /// By its passes, else by where ranks stood in it. `None`: it was not counted, and ranks do not tell.
    fn of(one: &FoundLoop) -> Option<Self> {
        match &one.course {
            SampledCourse::Seen(course) if course.is_sure => Some(Progress::of_course(*course)),
            _ => Progress::of_passes(one),
        }
    }

    fn of_course(LoopCourse { done, to_come, may_end_before, .. }: LoopCourse) -> Self {
        let remaining = to_come.saturating_add(1);
        let most = done.and_then(|done| done.checked_add(remaining));
        let mut said = vec!["by its counter, read where ranks stood in it"];
        said.extend(done.is_none().then_some("it is not known with what the counter began"));
        said.extend(may_end_before.then_some("it may be left before, in another way or half way through a pass"));
        Progress {
            done,
            remaining: Some(remaining).filter(|_| !may_end_before),
            total: most.filter(|_| !may_end_before),
            total_at_most: most,
            explanation: said.join("; "),
        }
    }

    fn of_passes(one: &FoundLoop) -> Option<Self> {
        let count = one.count.as_ref().filter(|count| count.not_counted.is_none())?;
        let ranks = match count.progress.as_ref()? {
            Ok(ranks) => ranks,
            Err(why) => return Some(Progress { explanation: why.to_string(), ..Progress::default() }),
        };
        let may_end_before = ranks.values().any(|rank| rank.may_end_before);
        let done = ranks.values().map(|rank| rank.done).min()?;
        let remaining = ranks.values().map(|rank| rank.remaining).collect::<Option<Vec<u64>>>();
        let mut totals = ranks.values().map(|rank| rank.done?.checked_add(rank.remaining?));
        let first = totals.next()?;
        let do_agree = totals.all(|total| total == first);
        let most = first.filter(|_| do_agree);
        let mut said = vec!["by its counter, which moved by one step in each pass"];
        said.extend(done.is_none().then_some("it is not known with what the counter began"));
        said.extend(remaining.is_none().then_some("the counter does not come to its bound"));
        said.extend((!do_agree).then_some("ranks differ in how many passes it has"));
        said.extend(may_end_before.then_some("it may be left before, in another way or half way through a pass"));
        Some(Progress {
            done,
            remaining: remaining.and_then(|all| all.into_iter().max()).filter(|_| !may_end_before),
            total: most.filter(|_| !may_end_before),
            total_at_most: most,
            explanation: said.join("; "),
        })
    }

    fn text(&self) -> String {
        let Progress { done, remaining, total, total_at_most, explanation } = self;
        let said = match (done, total, total_at_most, remaining) {
            (Some(done), Some(total), ..) => format!("{done} of {total} passes done"),
            (Some(done), None, Some(most), _) => format!("{done} of at most {most} passes done"),
            (Some(done), ..) => format!("{done} passes done, of how many is not known"),
            (None, _, _, Some(left)) => format!("{left} passes to come"),
            (None, ..) => "how many passes are done, and how many there are, is not known".to_owned(),
        };
        format!("{said}: {explanation}")
    }

    fn as_json(&self) -> Value {
        json!({
            "done": self.done,
            "remaining": self.remaining,
            "total": self.total,
            "total_at_most": self.total_at_most,
            "explanation": self.explanation,
        })
    }
}

/// `step at md.f90:214, loop 1.2 of step in app`.
fn place(one: &FoundLoop) -> String {
    let line = one.line.as_ref().map(|line| format!(" at {line}")).unwrap_or_default();
    format!("{}:{}{line} in {}", one.function, one.number, one.module)
}

/// The loops as a table, and what is said of them.
pub fn text(found: &FoundLoops) -> String {
    let rows: Vec<Row> = found.loops.iter().map(Row::of).collect();
    let mut text = looked(found);
    if !rows.is_empty() {
        let column = rows.iter().map(|row| row.place.chars().count()).max().unwrap_or(0).min(PLACE_COLUMNS_MAX);
        let _ = writeln!(
            text,
            "\n    {:column$} {:>13} {:>12} {:>9} {:>7}",
            "loop, outermost first", "passes", "a pass every", "MPI calls", "stacks"
        );
        for (index, row) in rows.iter().enumerate() {
            let mark = if found.choice == Some(index) { "*" } else { " " };
            let share = found.loops[index].share * 100.0;
            let _ = writeln!(
                text,
                "{:2}{mark} {:column$} {:>13} {:>12} {:>9} {share:>6.0}%",
                index + 1,
                row.place,
                row.passes.map_or("not counted".to_owned(), passes_text),
                row.pass_s.map_or("-".to_owned(), duration_text),
                row.mpi_calls_per_pass.map_or("-".to_owned(), |calls| format!("{calls:.1}"))
            );
        }
        text += "\n";
    }
    for (index, one) in found.loops.iter().enumerate() {
        if let Some(progress) = Progress::of(one) {
            let _ = writeln!(text, "loop {}: {}", index + 1, progress.text());
        }
    }
    for (index, row) in rows.iter().enumerate() {
        if let Some(reason) = &row.why_not {
            let _ = writeln!(text, "loop {} is not counted: {reason}", index + 1);
        }
        let FoundLoop { ranks_without, is_alone, .. } = &found.loops[index];
        if !ranks_without.is_empty() && *is_alone {
            let _ = writeln!(text, "loop {}: no stack of {} is in it", index + 1, name_ranks(ranks_without));
        }
    }
    said(found).iter().for_each(|line| text += &format!("{line}\n"));
    let _ = writeln!(text, "{}", verdict(found));
    if let Some(one) = found.choice.map(|index| &found.loops[index]) {
        let pid = found.targets[0].pid;
        let _ = writeln!(text, "to count it yourself: trimtab probe '{} {{ n++ }}' {pid}", one.point);
    }
    text
}

fn looked(found: &FoundLoops) -> String {
    let whose = match found.targets.len() {
        1 => format!("process {}", found.targets[0].pid),
        ranks => format!("{ranks} ranks"),
    };
    let (looks, known) = (found.looks, found.stacks_known);
    let mut text = format!(
        "{whose}: {looks} looks at stacks in {:.1} s, each thread held for {:.0} us at most; {known} stacks known from end to end\n",
        found.sampled_s, found.pause_look_us_max
    );
    if found.counted_s > 0.0 {
        let (counted, held_us) = (found.counted_s, found.cost.pause_insert_us_max);
        let held_us = held_us.max(found.cost.pause_remove_us_max.unwrap_or(0.0));
        let _ = writeln!(text, "passes counted for {counted:.1} s, ranks held for {held_us:.0} us at most for that");
    }
    text
}

/// Notes for a reader.
fn said(found: &FoundLoops) -> Vec<String> {
    let mut said = found.unusable.clone();
    let unknown = &found.stacks_unknown;
    if let Some((reason, _)) = unknown.iter().max_by_key(|(_, count)| **count) {
        let count: u64 = unknown.values().sum();
        said.push(format!("{count} stacks are not known from end to end, most because {reason}"));
    }
    let out_of_step = found.loops.iter().enumerate().filter(|(_, one)| one.is_out_of_step);
    said.extend(out_of_step.map(|(index, _)| {
        format!(
            "ranks do not pass loop {} equally often, so one may hand out what the others do: it is not taken",
            index + 1
        )
    }));
    if found.elsewhere > 0 {
        said.push(format!("{} ranks on other machines were not looked at", found.elsewhere));
    }
    said.extend(found.cost.warnings.iter().cloned());
    said.extend(found.cost.notes.iter().cloned());
    said
}

fn verdict(found: &FoundLoops) -> String {
    match found.choice {
        Some(index) => format!(
            "an iteration is a pass of loop {}: the outermost that was passed {PASSES_MIN} times in {NEST_SECONDS:.0} s, or until the \
             innermost was",
            index + 1
        ),
        None if found.loops.is_empty() => {
            "no loop of the program is around what runs; look again while it iterates, with more --samples".to_owned()
        }
        None if hidden(found).is_some() => format!(
            "none of these is taken for an iteration: how often loop {} is passed is not known, and none around it was passed {PASSES_MIN} times",
            hidden(found).unwrap_or_default() + 1
        ),
        None if found.is_interpreted => "none of these is taken for an iteration".to_owned(),
        None => format!(
            "no loop with calls of MPI was passed {PASSES_MIN} times; a larger --max-seconds waits longer, a third of it"
        ),
    }
}

/// The outermost loop that can't be counted.
fn hidden(found: &FoundLoops) -> Option<usize> {
    let is_hidden = |count: &LoopCount| count.can_not_be_counted() && count.witnessed != Some(0);
    found.loops.iter().position(|one| one.count.as_ref().is_some_and(is_hidden))
}

fn passes_text((least, most): (u64, u64)) -> String {
    if least == most { least.to_string() } else { format!("{least}-{most}") }
}

fn duration_text(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.3} s"),
        s if s >= 1e-3 => format!("{:.3} ms", s * 1e3),
        s => format!("{:.2} us", s * 1e6),
    }
}

/// The same for programs.
pub fn as_json(found: &FoundLoops) -> Value {
    let cost = &found.cost;
    json!({
        "version": JSON_VERSION,
        "processes": found.targets.iter().map(|target| json!({ "pid": target.pid.0, "rank": target.rank })).collect::<Vec<_>>(),
        "ranks_elsewhere": found.elsewhere,
        "looks": found.looks,
        "looks_seconds": found.sampled_s,
        "stacks_known": found.stacks_known,
        "stacks_unknown": found.stacks_unknown,
        "pause_look_us_max": found.pause_look_us_max,
        "counted_seconds": found.counted_s,
        "pause_insert_us_max": Some(cost.pause_insert_us_max).filter(|held_us| *held_us > 0.0),
        "pause_remove_us_max": cost.pause_remove_us_max,
        "loops": found.loops.iter().enumerate().map(loop_as_json).collect::<Vec<_>>(),
        "taken": found.choice.map(|index| index + 1),
        "verdict": verdict(found),
        "notes": said(found),
    })
}

fn loop_as_json((index, one): (usize, &FoundLoop)) -> Value {
    let row = Row::of(one);
    let rank = |(rank, passes): (&i64, &LoopPasses)| {
        json!({
            "rank": if *rank < 0 { Value::Null } else { json!(rank) },
            "passes": passes.passes,
            "passes_with_mpi": passes.with_mpi,
            "mpi_calls": passes.mpi_calls,
        })
    };
    let ranks = one.count.as_ref().filter(|count| count.not_counted.is_none());
    json!({
        "number": index + 1,
        "function": one.function,
        "module": one.module,
        "function_address": format!("{:#x}", one.function_address.0),
        "loop": one.number,
        "point": one.point,
        "line": one.line,
        "share_of_stacks": one.share,
        "ranks_without": one.ranks_without,
        "passes_min": row.passes.map(|(least, _)| least),
        "passes_max": row.passes.map(|(_, most)| most),
        "seconds_per_pass": row.pass_s,
        "mpi_calls_per_pass": row.mpi_calls_per_pass,
        "progress": Progress::of(one).map(|progress| progress.as_json()),
        "not_counted_because": row.why_not,
        "ranks": ranks.map(|count| count.ranks.iter().map(rank).collect::<Vec<_>>()),
    })
}
