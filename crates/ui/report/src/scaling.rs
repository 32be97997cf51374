//! One program on several numbers of ranks, for a terminal: speed-up, efficiency, and what keeps it from scaling.
//!
//! Next: `trimtab_types::scaling` for the numbers.

use crate::Style;
use crate::clean::clean;
use crate::terminal::{Cell, Column, Pen, Table};
use crate::units::{NOT_MEASURED, counted, percent, significant, time, time_with_half_width};
use trimtab_types::report::FunctionGroup;
use trimtab_types::scaling::{FunctionScaling, Growth, LostIn, Scaling, ScalingPoint, Work};

/// Numbers of ranks in the table of functions: more have no room.
const COLUMNS_MAX: usize = 5;

/// The scaling as text.
pub fn scaling(scaling: &Scaling, style: &Style) -> String {
    let pen = Pen::new(style);
    let mut lines = pen.wrap(&headline(scaling), 0);
    lines.push(String::new());
    lines.extend(points(scaling).lay_out(&pen).lines);
    if !scaling.functions.is_empty() {
        lines.push(String::new());
        lines.extend(functions(scaling).lay_out(&pen).lines);
    }
    lines.push(String::new());
    let mut facts = vec![definitions(scaling.work).to_owned()];
    facts.extend(scaling.warnings.iter().map(|warning| format!("! {}", clean(warning))));
    lines.extend(facts.iter().flat_map(|fact| pen.wrap(fact, 0)));
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The main result.
fn headline(scaling: &Scaling) -> String {
    let [first, .., last] = scaling.points.as_slice() else { return "There is nothing to compare.".to_owned() };
    let half_width =
        last.speed_up_half_width_95.map_or_else(String::new, |width| format!(" ± {}", significant(width, 2)));
    let best = match scaling.work {
        Work::Strong => f64::from(last.ranks) / f64::from(first.ranks),
        Work::Weak => 1.0,
    };
    let mut text = format!(
        "From {} to {} ranks the speed-up is {}{half_width} of {} at best: an efficiency of {}.",
        first.ranks,
        last.ranks,
        significant(last.speed_up, 3),
        significant(best, 3),
        percent(last.efficiency)
    );
    text += &why(scaling, last);
    text
}

/// The cause in a sentence.
fn why(scaling: &Scaling, last: &ScalingPoint) -> String {
    let lost_s = scaling.lost_s;
    if scaling.lost_half_width_95_s.is_some_and(|width| lost_s <= width) || lost_s <= 0.0 {
        return " As far as the intervals tell, it loses nothing.".to_owned();
    }
    let mut text = format!(" An iteration takes {} more than it ideally would", time(lost_s));
    if let Some(part) = scaling.parts.first().filter(|part| part.lost_s > 0.0) {
        let share = percent((part.lost_s / lost_s).min(1.0));
        text += &format!(": {share} of that is {}", part_word(part.part));
    }
    // Communication that waits for a function is no cause beside it.
    let own = scaling.functions.iter().find(|function| function.group != FunctionGroup::Comm);
    let cause = own.filter(|function| function.lost_s >= 0.1 * lost_s).or(scaling.functions.first());
    text += ".";
    if let Some(function) = cause {
        text += &format!(" {}", sentence(function, last.ranks, lost_s));
    }
    text
}

fn part_word(part: LostIn) -> &'static str {
    match part {
        LostIn::Computation => "computation that ranks do beyond their part of the work",
        LostIn::LoadBalance => "load imbalance",
        LostIn::Communication => "communication",
    }
}

fn sentence(function: &FunctionScaling, ranks: u32, lost_s: f64) -> String {
    let now_s = function.per_iteration_s.last().copied().flatten();
    let takes = now_s.map_or_else(|| NOT_MEASURED.to_owned(), time);
    let who = function.only_rank.map_or_else(String::new, |rank| format!(" only rank {rank} calls it,"));
    let how = match function.growth {
        Growth::Stays => "it takes as long however many ranks there are",
        Growth::Grows => "it takes longer the more ranks there are",
        Growth::Shrinks => "it gets shorter with more ranks, but less than it should",
        Growth::Appears => "it is not called on the fewest ranks",
    };
    format!(
        "Look at {} first: {takes} of an iteration on {ranks} ranks;{who} {how}, which is {} of the loss.",
        clean(&function.name),
        percent((function.lost_s / lost_s).min(1.0))
    )
}

fn points(scaling: &Scaling) -> Table {
    let mut table = Table::new(vec![
        Column::number("ranks", 0),
        Column::number("per iteration", 0),
        Column::number("speed-up", 0),
        Column::number("efficiency", 0),
        Column::number("computation", 1),
        Column::number("parallel", 1),
        Column::number("balance", 2),
        Column::number("communication", 2),
        Column::number("serial", 3),
        Column::name("window"),
    ]);
    let share = |value: Option<f64>| value.map_or_else(|| NOT_MEASURED.to_owned(), percent);
    for point in &scaling.points {
        let each = point.time_per_iteration_s;
        let cells = [
            point.ranks.to_string(),
            each.half_width_95.map_or_else(|| time(each.mean), |width| time_with_half_width(each.mean, width)),
            significant(point.speed_up, 3),
            percent(point.efficiency),
            share(point.computation_scaling),
            share(point.parallel_efficiency),
            share(point.load_balance),
            share(point.communication_efficiency),
            serial(point),
            clean(&point.window),
        ];
        table.row(cells.into_iter().map(Cell::Text).collect());
    }
    table
}

/// The serial part with half of its interval, if there is one.
fn serial(point: &ScalingPoint) -> String {
    let Some(fraction) = point.serial_fraction else { return "-".to_owned() };
    let half = point.serial_fraction_half_width_95.map_or_else(String::new, |half| format!(" ± {}", percent(half)));
    percent(fraction) + &half
}

fn functions(scaling: &Scaling) -> Table {
    let shown = shown_points(scaling.points.len());
    let mut columns = vec![Column::name("function")];
    columns
        .extend(shown.iter().map(|index| Column::number(&counted(u64::from(scaling.points[*index].ranks), "rank"), 0)));
    columns.extend([Column::number("lost", 0), Column::name("with ranks"), Column::name("on")]);
    let mut table = Table::new(columns);
    for function in &scaling.functions {
        // It was not called there, or not timed.
        let at = |index: &usize| function.per_iteration_s[*index].map_or_else(|| "-".to_owned(), time);
        let growth = match function.growth {
            Growth::Shrinks => "shrinks",
            Growth::Stays => "stays",
            Growth::Grows => "grows",
            Growth::Appears => "appears",
        };
        let on = match function.only_rank {
            Some(rank) => format!("rank {rank}"),
            None if function.group == FunctionGroup::Comm => "mean".to_owned(),
            None => "longest".to_owned(),
        };
        let mut cells = vec![clean(&function.name)];
        cells.extend(shown.iter().map(at));
        cells.extend([time(function.lost_s), growth.to_owned(), on]);
        table.row(cells.into_iter().map(Cell::Text).collect());
    }
    table
}

/// The first, the last, and as many between as there is room for.
fn shown_points(count: usize) -> Vec<usize> {
    if count <= COLUMNS_MAX {
        return (0..count).collect();
    }
    (0..COLUMNS_MAX).map(|index| index * (count - 1) / (COLUMNS_MAX - 1)).collect()
}

fn definitions(work: Work) -> &'static str {
    match work {
        Work::Strong => {
            "efficiency = speed-up / how many times as many ranks; computation = computation of all ranks on the fewest / on these; \
             serial = serial part by Karp and Flatt; times of functions are those of an iteration"
        }
        Work::Weak => {
            "each rank's work stays: efficiency = speed-up; computation = computation of a rank on the fewest / on these; times of \
             functions are those of an iteration"
        }
    }
}
