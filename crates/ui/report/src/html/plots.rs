//! The three plots: time per rank, time per iteration, volume from rank to rank.
//!
//! Each keeps its extremes however many ranks or iterations there are: a column that stands for several ranks shows the
//! one that computes longest, a band over ranks reaches from the smallest to the largest value.
//!
//! Next: `svg.rs` for drawing, `page.js` for what happens under the mouse.

use super::escape::text;
use super::svg::{Anchor, Svg, ticks};
use crate::numbers;
use crate::units::{bytes, bytes_short, percent, time};
use trimtab_types::report::{RankTotal, Report};

/// Width of every plot.
const WIDTH: f64 = 1000.0;

/// Right end of the column of CPU shares.
const CPU_RIGHT: f64 = 990.0;

/// Ranks that get a row with its label each.
const ROWS_MAX: usize = 64;

/// Columns where there are more ranks.
const COLUMNS_MAX: usize = 450;

/// Ranks that get a line of their own over iterations: as many as there are colours one can tell apart.
const LINES_MAX: usize = 8;

/// Points along the band over iterations.
const BAND_POINTS_MAX: usize = 500;

/// Rows and columns of the volume map; more ranks share a cell.
const MAP_SIDE_MAX: usize = 64;

/// Stacked computation and communication of each rank.
pub(super) fn ranks(report: &Report) -> String {
    let longest_s = report.ranks.iter().map(|rank| rank.duration_s).fold(0.0, f64::max);
    if !longest_s.is_finite() || longest_s <= 0.0 {
        return nothing();
    }
    let legend = if numbers::communication_measured(report) {
        legend(&[("computation", "computation"), ("communication", "communication")])
    } else {
        String::new()
    };
    let plot =
        if report.ranks.len() <= ROWS_MAX { rank_rows(report, longest_s) } else { rank_columns(report, longest_s) };
    legend + &plot
}

/// Time of each iteration, a line per rank or a band over all ranks.
pub(super) fn iterations(report: &Report) -> String {
    let times = report.ranks.iter().flat_map(|rank| rank.iteration_times_s.iter().copied());
    let most = report.ranks.iter().map(|rank| rank.iteration_times_s.len()).max().unwrap_or(0);
    let Some(range) = numbers::spread(times).filter(|_| most > 1) else { return nothing() };
    // A span of less than half of the value would be a flat line on an axis from zero.
    let low = if range.min < range.max * 0.5 { 0.0 } else { range.min };
    let span = if range.max > low { (low, range.max) } else { (0.0, range.max) };
    let frame = Frame::new(span, most, report.window.start.unwrap_or(0));
    let mut svg = Svg::new(WIDTH, frame.bottom + 46.0);
    frame.draw(&mut svg);
    let lines = report.ranks.len() <= LINES_MAX;
    let legend =
        if lines { iteration_lines(report, &frame, &mut svg) } else { iteration_band(report, &frame, &mut svg, most) };
    let data = format!(
        " data-left=\"{}\" data-right=\"{}\" data-top=\"{}\" data-bottom=\"{}\" data-count=\"{most}\" data-first=\"{}\"",
        frame.left, frame.right, frame.top, frame.bottom, frame.first
    );
    let label = format!("time per iteration from {} to {} over {most} iterations", time(range.min), time(range.max));
    legend + &svg.finish("iterations", &label, &data)
}

/// Bytes from rank to rank as a map, darker for more.
pub(super) fn volume(report: &Report) -> String {
    if report.links.is_empty() {
        return nothing();
    }
    let (matrix, per_row) = numbers::volume_matrix(report, MAP_SIDE_MAX);
    let largest = matrix.iter().flatten().copied().max().unwrap_or(0);
    let map = Map { side: matrix.len(), per_row, cell: (340.0 / matrix.len() as f64).min(44.0), largest };
    let mut svg = Svg::new(map.left() + map.length() + 145.0, map.top() + map.length().max(170.0) + 8.0);
    map.draw_labels(&mut svg);
    for (row, cells) in matrix.iter().enumerate() {
        for (column, volume) in cells.iter().enumerate() {
            map.draw_cell(&mut svg, row, column, *volume);
        }
    }
    map.draw_scale(&mut svg);
    let label = format!("bytes from rank to rank, {} in the largest cell", bytes(largest as f64));
    format!("<div class=\"beside\">\n{}{}</div>\n", svg.finish("volume", &label, ""), super::tables::links(report))
}

fn nothing() -> String {
    "<p class=\"none\">not measured</p>\n".to_string()
}

fn legend(entries: &[(&str, &str)]) -> String {
    let entry = |(class, name): &(&str, &str)| format!("<span><i class=\"{class}\"></i>{}</span>", text(name));
    format!("<p class=\"legend\">{}</p>\n", entries.iter().map(entry).collect::<String>())
}

fn rank_tip(rank: &RankTotal, measured: bool) -> String {
    let mut parts = vec![format!("rank {} on {} (pid {})", rank.rank, rank.host, rank.pid)];
    if let Some((computation_s, communication_s)) = parts_of(rank, measured) {
        let share = numbers::communication_share(rank).map_or("-".to_string(), percent);
        parts.push(format!("computation {}", time(computation_s)));
        parts.push(format!("communication {} ({share})", time(communication_s)));
    } else {
        parts.push(format!("recorded {}", time(rank.duration_s)));
    }
    parts.extend(numbers::cpu_share(rank).map(|share| format!("CPU {} of wall time", percent(share))));
    parts.extend(rank.time_per_iteration_s.map(|s| format!("{} per iteration", time(s))));
    parts.join(" | ")
}

/// Computation and communication of a rank where they were measured.
fn parts_of(rank: &RankTotal, measured: bool) -> Option<(f64, f64)> {
    rank.computation_s.zip(rank.communication_s).filter(|_| measured)
}

/// A row per rank with its numbers beside it.
fn rank_rows(report: &Report, longest_s: f64) -> String {
    let measured = numbers::communication_measured(report);
    let (left, right, top) = (70.0, if measured { 850.0 } else { 920.0 }, 26.0);
    let row = if report.ranks.len() <= 16 { 26.0 } else { 15.0 };
    let bottom = top + row * report.ranks.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + 26.0);
    let scale = (right - left) / longest_s;
    for mark in ticks(0.0, longest_s, 6).iter().filter(|mark| **mark <= longest_s) {
        svg.line("grid", [left + mark * scale, top, left + mark * scale, bottom]);
        svg.text("axis", Anchor::Middle, (left + mark * scale, bottom + 14.0), &time(*mark));
    }
    svg.text("axis", Anchor::End, (left - 8.0, top - 12.0), "rank");
    if measured {
        svg.text("axis", Anchor::End, (right + 75.0, top - 12.0), "comm");
    }
    svg.text("axis", Anchor::End, (CPU_RIGHT, top - 12.0), "CPU");
    for (place, rank) in report.ranks.iter().enumerate() {
        let y = top + row * place as f64;
        rank_row(&mut svg, rank, measured, [left, right, y, row], scale);
    }
    svg.finish("ranks", "computation and communication time of each rank", "")
}

fn rank_row(svg: &mut Svg, rank: &RankTotal, measured: bool, [left, right, y, row]: [f64; 4], scale: f64) {
    let tip = rank_tip(rank, measured);
    let (top, height, middle) = (y + row * 0.12, row * 0.76, y + row * 0.5);
    svg.text("label", Anchor::End, (left - 8.0, middle), &rank.rank.to_string());
    if let Some((computation_s, communication_s)) = parts_of(rank, measured) {
        let computation = computation_s * scale;
        svg.rect("computation", [left, top, computation, height], &tip);
        svg.rect("communication", [left + computation, top, communication_s * scale, height], &tip);
        let share = numbers::communication_share(rank).map_or("-".to_string(), percent);
        svg.text("label", Anchor::End, (right + 75.0, middle), &share);
    } else {
        svg.rect("recorded", [left, top, rank.duration_s * scale, height], &tip);
    }
    let cpu = numbers::cpu_share(rank).map_or("-".to_string(), |share| format!("{:.0}%", share * 100.0));
    svg.text("label", Anchor::End, (CPU_RIGHT, middle), &cpu);
}

/// A column per rank, or per few neighbouring ranks the one that computes longest.
fn rank_columns(report: &Report, longest_s: f64) -> String {
    let measured = numbers::communication_measured(report);
    let (left, right, top, bottom) = (70.0, 990.0, 10.0, 270.0);
    let mut svg = Svg::new(WIDTH, bottom + 46.0);
    let scale = (bottom - top) / longest_s;
    for mark in ticks(0.0, longest_s, 5).iter().filter(|mark| **mark <= longest_s) {
        svg.line("grid", [left, bottom - mark * scale, right, bottom - mark * scale]);
        svg.text("axis", Anchor::End, (left - 8.0, bottom - mark * scale), &time(*mark));
    }
    let per_column = report.ranks.len().div_ceil(COLUMNS_MAX);
    let columns: Vec<&RankTotal> = report.ranks.chunks(per_column).filter_map(longest_computing).collect();
    let width = (right - left) / columns.len() as f64;
    let label_every = columns.len().div_ceil(12);
    for (place, rank) in columns.iter().enumerate() {
        let x = left + width * place as f64;
        let shape = if width > 3.0 { [x + 0.5, width - 1.0] } else { [x, width] };
        rank_column(&mut svg, rank, measured, shape, (bottom, scale));
        if place % label_every == 0 {
            svg.text("axis", Anchor::Start, (x, bottom + 14.0), &rank.rank.to_string());
        }
    }
    let ranks = if per_column == 1 {
        "rank".to_string()
    } else {
        format!("rank: of every {per_column}, the one that computes longest")
    };
    svg.text("axis", Anchor::Middle, ((left + right) / 2.0, bottom + 34.0), &ranks);
    svg.finish("ranks", "computation and communication time of each rank", "")
}

fn longest_computing(ranks: &[RankTotal]) -> Option<&RankTotal> {
    ranks.iter().max_by(|a, b| numbers::computation_order(a, b))
}

fn rank_column(svg: &mut Svg, rank: &RankTotal, measured: bool, [x, width]: [f64; 2], (bottom, scale): (f64, f64)) {
    let tip = rank_tip(rank, measured);
    if let Some((computation_s, communication_s)) = parts_of(rank, measured) {
        let (computation, communication) = (computation_s * scale, communication_s * scale);
        svg.rect("computation", [x, bottom - computation, width, computation], &tip);
        svg.rect("communication", [x, bottom - computation - communication, width, communication], &tip);
    } else {
        svg.rect("recorded", [x, bottom - rank.duration_s * scale, width, rank.duration_s * scale], &tip);
    }
}

/// The frame of the plot over iterations.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    marks: Vec<f64>,
    count: usize,
    /// Number of the first recorded iteration.
    first: u64,
}

impl Frame {
    fn new((low, high): (f64, f64), count: usize, first: u64) -> Frame {
        Frame { left: 80.0, right: 985.0, top: 12.0, bottom: 252.0, marks: ticks(low, high, 5), count, first }
    }

    fn x(&self, place: f64) -> f64 {
        self.left + (self.right - self.left) * place / (self.count - 1).max(1) as f64
    }

    fn y(&self, seconds: f64) -> f64 {
        let (low, high) = (self.marks[0], self.marks[self.marks.len() - 1]);
        self.bottom - (self.bottom - self.top) * numbers::ratio(seconds - low, high - low).unwrap_or(0.0)
    }

    fn draw(&self, svg: &mut Svg) {
        for mark in &self.marks {
            svg.line("grid", [self.left, self.y(*mark), self.right, self.y(*mark)]);
            svg.text("axis", Anchor::End, (self.left - 8.0, self.y(*mark)), &time(*mark));
        }
        let last = (self.count - 1) as f64;
        for mark in ticks(0.0, last, 8).into_iter().filter(|mark| *mark <= last && mark.fract() == 0.0) {
            let iteration = crate::units::count(self.first + mark as u64);
            svg.text("axis", Anchor::Middle, (self.x(mark), self.bottom + 14.0), &iteration);
        }
        let from_zero =
            if self.marks[0] > 0.0 { "iteration (the time axis does not start at zero)" } else { "iteration" };
        svg.text("axis", Anchor::Middle, ((self.left + self.right) / 2.0, self.bottom + 34.0), from_zero);
    }
}

fn iteration_lines(report: &Report, frame: &Frame, svg: &mut Svg) -> String {
    let mut entries = Vec::new();
    for (place, rank) in report.ranks.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            rank.iteration_times_s.iter().enumerate().map(|(i, s)| (frame.x(i as f64), frame.y(*s))).collect();
        svg.polyline(&format!("line s{place}"), &points);
        entries.push((format!("s{place}"), format!("rank {}", rank.rank)));
    }
    let entries: Vec<(&str, &str)> = entries.iter().map(|(class, name)| (class.as_str(), name.as_str())).collect();
    legend(&entries)
}

fn iteration_band(report: &Report, frame: &Frame, svg: &mut Svg, most: usize) -> String {
    let per_point = most.div_ceil(BAND_POINTS_MAX);
    let (mut outer, mut inner, mut median) = (Vec::new(), Vec::new(), Vec::new());
    for start in (0..most).step_by(per_point) {
        let times =
            report.ranks.iter().flat_map(|rank| rank.iteration_times_s.iter().skip(start).take(per_point).copied());
        let Some(spread) = numbers::spread(times) else { continue };
        let x = frame.x(start as f64);
        outer.push((x, frame.y(spread.min), frame.y(spread.max)));
        inner.push((x, frame.y(spread.lower_quartile), frame.y(spread.upper_quartile)));
        median.push((x, frame.y(spread.median)));
    }
    svg.polygon("band outer", &outline(&outer));
    svg.polygon("band inner", &outline(&inner));
    svg.polyline("line s0", &median);
    legend(&[
        ("s0", "median rank"),
        ("band inner", "middle half of the ranks"),
        ("band outer", "fastest to slowest rank"),
    ])
}

/// Along the lower edge and back along the upper.
fn outline(edges: &[(f64, f64, f64)]) -> Vec<(f64, f64)> {
    let lower = edges.iter().map(|(x, low, _)| (*x, *low));
    let upper = edges.iter().rev().map(|(x, _, high)| (*x, *high));
    lower.chain(upper).collect()
}

/// The map of volumes.
struct Map {
    side: usize,
    /// Ranks that share a row or column.
    per_row: usize,
    /// Pixels of a cell.
    cell: f64,
    largest: u64,
}

impl Map {
    fn left(&self) -> f64 {
        110.0
    }

    fn top(&self) -> f64 {
        44.0
    }

    fn length(&self) -> f64 {
        self.cell * self.side as f64
    }

    /// "3", or "64-127" where ranks share a row.
    fn name(&self, row: usize) -> String {
        let first = row * self.per_row;
        if self.per_row == 1 { first.to_string() } else { format!("{first}-{}", first + self.per_row - 1) }
    }

    fn draw_labels(&self, svg: &mut Svg) {
        let (left, top) = (self.left(), self.top());
        let label_width = 14.0 + 8.0 * (self.side * self.per_row).to_string().len() as f64;
        let every = (label_width / self.cell).ceil() as usize;
        for row in (0..self.side).step_by(every) {
            let middle = (row as f64 + 0.5) * self.cell;
            let first = (row * self.per_row).to_string();
            svg.text("axis", Anchor::End, (left - 8.0, top + middle), &first);
            svg.text("axis", Anchor::Middle, (left + middle, top - 10.0), &first);
        }
        svg.text("axis", Anchor::Start, (left, top - 30.0), "to rank");
        svg.text("axis", Anchor::End, (left - 34.0, top + 8.0), "from rank");
        svg.rect("map", [left, top, self.length(), self.length()], "");
    }

    /// Opacity of a cell: the square root keeps small volumes visible beside large ones.
    fn strength(&self, share: f64) -> f64 {
        0.08 + 0.92 * share.sqrt()
    }

    fn draw_cell(&self, svg: &mut Svg, row: usize, column: usize, volume: u64) {
        let Some(share) = numbers::ratio(volume as f64, self.largest as f64).filter(|_| volume > 0) else { return };
        let (x, y) = (self.left() + column as f64 * self.cell, self.top() + row as f64 * self.cell);
        let gap = if self.cell > 6.0 { 1.0 } else { 0.0 };
        let tip = format!("rank {} to {} | {}", self.name(row), self.name(column), bytes(volume as f64));
        let strength = self.strength(share);
        let size = self.cell - gap;
        svg.styled_rect(
            "heat",
            &format!("fill-opacity:{strength:.2}"),
            [x + gap / 2.0, y + gap / 2.0, size, size],
            &tip,
        );
        if self.cell >= 36.0 {
            let class = if strength > 0.55 { "cell strong" } else { "cell" };
            svg.text(class, Anchor::Middle, (x + self.cell / 2.0, y + self.cell / 2.0), &bytes_short(volume));
        }
    }

    /// The scale of the shades.
    fn draw_scale(&self, svg: &mut Svg) {
        let (x, top) = (self.left() + self.length() + 40.0, self.top());
        svg.text("axis", Anchor::Start, (x, top - 10.0), "bytes");
        for (place, share) in [1.0, 0.5, 0.25, 0.1, 0.01].into_iter().enumerate() {
            let y = top + place as f64 * 24.0;
            svg.styled_rect("heat", &format!("fill-opacity:{:.2}", self.strength(share)), [x, y, 22.0, 22.0], "");
            svg.text("axis", Anchor::Start, (x + 32.0, y + 11.0), &bytes(self.largest as f64 * share));
        }
        svg.text("axis", Anchor::Start, (x, top + 136.0), "blank: none");
        if self.per_row > 1 {
            svg.text("axis", Anchor::Start, (x, top + 158.0), &format!("{} ranks per row", self.per_row));
        }
    }
}
