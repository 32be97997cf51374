//! Models as pages and as JSON: terms, coefficients, range, errors, and a plot of what was measured.
//!
//! Next: `model`, which prints them.

use crate::recorded::short;
use serde_json::{Value, json};
use std::fmt::Write as _;
use trimtab_controller::forecasts::{Content, Named, stray_words, time_words};
use trimtab_engine::Basis;
use trimtab_engine::routine::{Model, Piece, Unit};

/// The plot's columns and rows.
const COLUMNS: usize = 60;
const ROWS: usize = 14;

/// Models as JSON, without their runs.
pub fn list_as_json(all: &[Named]) -> anyhow::Result<Value> {
    let models = all.iter().map(Named::json).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({ "version": 1, "models": models }))
}

/// One line for each model.
pub fn list(all: &[Named]) -> String {
    if all.is_empty() {
        return "no model has been made yet: `trimtab model fit NAME --run 'CMD {n}' --over n=...` makes one"
            .to_owned();
    }
    let mut text = String::new();
    for named in all {
        let content = &named.content;
        let _ =
            writeln!(text, "{:<16} {}: {}", named.kept.name, time_words(content), formulas(&content.time).join("; "));
        let _ = writeln!(text, "{:<16} {}, on {}", "", ranges(&content.time), content.host_kind.words());
    }
    text
}

/// A whole page of one model.
pub fn page(named: &Named) -> String {
    let content = &named.content;
    let mut text = format!("{}: {}\n", named.kept.name, named.kept.command.join(" "));
    let _ = writeln!(text, "on {}", content.host_kind.words());
    let _ = write!(text, "{}; {} runs", ranges(&content.time), content.runs.len());
    let _ = match content.disturbed {
        0 => writeln!(text, ", none disturbed"),
        count => writeln!(text, ", {count} of them disturbed by others on this host"),
    };
    if !content.left_out.is_empty() {
        let _ = writeln!(text, "{} sizes took too long and are not in it", content.left_out.len());
    }
    let _ = writeln!(text, "\n{}, seconds:", time_words(content));
    text += &described(&content.time);
    if let Some(memory) = &content.memory {
        text += "\nmemory of its largest process, bytes:\n";
        text += &described(memory);
    } else if let Some(why) = &content.no_memory {
        let _ = writeln!(text, "\nno model of memory: {why}");
    }
    text += "\n";
    text += &plot(content);
    text
}

fn ranges(model: &Model) -> String {
    let ends = model.parameters.iter().zip(model.least.iter().zip(&model.most));
    let words: Vec<String> = ends.map(|(name, (least, most))| format!("{name} from {least} to {most}")).collect();
    words.join(", ")
}

fn formulas(model: &Model) -> Vec<String> {
    if let Some(stray) = model.stray {
        return vec![stray_words(stray)];
    }
    model.pieces.iter().map(|piece| formula(model, piece)).collect()
}

fn formula(model: &Model, piece: &Piece) -> String {
    let term = |fitted: &trimtab_engine::routine::Fitted| match fitted.term.is_constant() {
        true => short(fitted.coefficient),
        false => format!("{} * {}", short(fitted.coefficient), fitted.term.words(&model.parameters)),
    };
    let sum: Vec<String> = piece.terms.iter().map(term).collect();
    let mut text = if sum.is_empty() { "0".to_owned() } else { sum.join(" + ") };
    for (name, (above, up_to)) in model.parameters.iter().zip(piece.above.iter().zip(&piece.up_to)) {
        if let Some(up_to) = up_to {
            let _ = write!(text, ", {name} up to {}", short(*up_to));
        }
        if *above > 0.0 {
            let _ = write!(text, ", {name} above {}", short(*above));
        }
    }
    text
}

fn described(model: &Model) -> String {
    let mut text = String::new();
    for line in formulas(model) {
        let _ = writeln!(text, "  {line}");
    }
    let percent = |share: f64| format!("{:.1}%", 100.0 * share);
    for piece in &model.pieces {
        let inside = piece.error_median.zip(piece.error_worst);
        let inside = inside.map_or_else(
            || "too few to leave one out".to_owned(),
            |(median, worst)| {
                format!("sizes left out are met to {} in the median, {} at worst", percent(median), percent(worst))
            },
        );
        let beyond = piece
            .error_beyond
            .map_or_else(String::new, |error| format!("; the largest, told from smaller ones, to {}", percent(error)));
        let _ = writeln!(text, "  {} sizes: {inside}{beyond}", piece.places);
    }
    let _ = writeln!(text, "  runs of one size spread by {}", percent(model.noise));
    text
}

/// Measured values and the model's, both axes by ratio; of the first parameter, the others at their largest.
fn plot(content: &Content) -> String {
    let model = &content.time;
    let is_meant = |at: &[f64]| at.iter().zip(&model.most).skip(1).all(|(size, most)| size == most);
    let value = |ran: &trimtab_engine::Ran| if content.time_is == Basis::Wall { ran.wall_s } else { ran.cpu_s };
    let points = content.runs.iter().filter(|ran| is_meant(&ran.at)).map(|ran| (ran.at[0], value(ran)));
    let points: Vec<(f64, f64)> = points.collect();
    let (least, most) = (model.least[0], model.most[0]);
    let size = |column: usize| least * (most / least).powf(column as f64 / (COLUMNS - 1) as f64);
    let line = (0..COLUMNS).filter_map(|column| {
        let at: Vec<f64> = [&[size(column)], &model.most[1..]].concat();
        Some((size(column), model.at(&at).ok()??.value))
    });
    let line: Vec<(f64, f64)> = line.collect();
    let values = || points.iter().chain(&line).map(|(_, value)| *value).filter(|value| *value > 0.0);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if low >= high {
        return String::new();
    }
    let mut grid = vec![vec![' '; COLUMNS]; ROWS];
    for (mark, all) in [('.', &line), ('o', &points)] {
        for (size, value) in all.iter().filter(|(_, value)| *value > 0.0) {
            let column = (size / least).ln() / (most / least).ln() * (COLUMNS - 1) as f64;
            let row = (value / low).ln() / (high / low).ln() * (ROWS - 1) as f64;
            grid[ROWS - 1 - row.round() as usize][column.round() as usize] = mark;
        }
    }
    drawn(&grid, (low, high), &model.parameters[0], (least, most), model.unit)
}

fn drawn(grid: &[Vec<char>], values: (f64, f64), name: &str, sizes: (f64, f64), unit: Unit) -> String {
    let mut text = format!("{unit}: o measured, . model; both axes by ratio\n");
    for (number, row) in grid.iter().enumerate() {
        let label = match number {
            0 => short(values.1),
            _ if number + 1 == grid.len() => short(values.0),
            _ => String::new(),
        };
        let _ = writeln!(text, "{label:>10} |{}", row.iter().collect::<String>().trim_end());
    }
    let _ = writeln!(text, "{:>10} +{}", "", "-".repeat(COLUMNS));
    let (least, most) = (format!("{name}={}", sizes.0), sizes.1.to_string());
    let _ = writeln!(text, "{:>11} {least}{most:>width$}", "", width = COLUMNS.saturating_sub(least.len()));
    text
}
