//! Columns that line up, and that leave in order of importance when the terminal is narrow.
//!
//! Next: `pen.rs` for the characters; `names.rs` for names that are too wide; `terminal.rs` and `ranks.rs` for the tables themselves.

use super::names;
use super::pen::{Ink, Pen};
use unicode_width::UnicodeWidthStr;

/// Spaces before the first column.
const INDENT: usize = 2;

/// Spaces between columns.
const GAP: usize = 2;

/// A column of names is not made narrower than this: its names go on in the next line.
const NAME_WIDTH_MIN: usize = 14;

/// So wide a column of names is made, if its names need it, before columns of less importance have room.
const NAME_WIDTH_WANTED: usize = 34;

/// A name that goes on in more lines than this is cut.
const NAME_LINES_MAX: usize = 3;

/// Columns whose number is at least this leave so that names have that room.
const LEAVES_FOR_NAMES: u8 = 2;

/// A bar is not drawn shorter than this.
const BAR_WIDTH_MIN: usize = 12;

/// The kind of a column's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Left; shortened, and wrapped, where it must be.
    Name,
    /// Left; cut at its end where it must be.
    Cut,
    /// Left.
    Text,
    /// Right.
    Number,
    /// Takes what the others leave.
    Bar,
}

/// One column.
pub(crate) struct Column {
    title: String,
    kind: Kind,
    /// Columns of the highest number leave first; 0 never leaves.
    leaves: u8,
}

impl Column {
    pub(crate) fn name(title: &str) -> Column {
        Column { title: title.to_string(), kind: Kind::Name, leaves: 0 }
    }

    pub(crate) fn cut(title: &str) -> Column {
        Column { title: title.to_string(), kind: Kind::Cut, leaves: 0 }
    }

    pub(crate) fn text(title: &str, leaves: u8) -> Column {
        Column { title: title.to_string(), kind: Kind::Text, leaves }
    }

    /// True if it may be narrower than what is in it.
    fn gives_way(&self) -> bool {
        matches!(self.kind, Kind::Name | Kind::Cut)
    }

    pub(crate) fn number(title: &str, leaves: u8) -> Column {
        Column { title: title.to_string(), kind: Kind::Number, leaves }
    }

    pub(crate) fn bar(title: &str) -> Column {
        Column { title: title.to_string(), kind: Kind::Bar, leaves: 0 }
    }
}

/// One cell.
pub(crate) enum Cell {
    Text(String),
    /// Parts of a bar as shares of its full width.
    Bar(Vec<(Ink, f64)>),
}

/// Rows under columns.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// The lines of a table, and the titles of columns that did not fit.
pub(crate) struct LaidOut {
    pub lines: Vec<String>,
    pub dropped: Vec<String>,
}

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// True if all columns fit, none cut.
    pub(crate) fn fits(&self, pen: &Pen) -> bool {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        total(&self.natural_widths(), &all) <= pen.width
    }

    /// Header and rows for this terminal.
    pub(crate) fn lay_out(&self, pen: &Pen) -> LaidOut {
        let mut widths = self.natural_widths();
        let all: Vec<usize> = (0..widths.len()).collect();
        let page_width = if pen.whole_names { pen.width.max(total(&widths, &all)) } else { pen.width };
        let (kept, dropped) = self.choose(&mut widths, page_width);
        let header = kept.iter().map(|&column| self.title(pen, column, widths[column]));
        let mut lines = vec![join(header)];
        for row in &self.rows {
            let cells: Vec<_> = kept.iter().map(|&c| (c, self.cell_lines(pen, c, &row[c], widths[c]))).collect();
            let height = cells.iter().map(|(_, lines)| lines.len()).max().unwrap_or(1);
            let blank = |column: usize| " ".repeat(widths[column]);
            lines.extend((0..height).map(|line| {
                join(cells.iter().map(|(column, lines)| lines.get(line).cloned().unwrap_or_else(|| blank(*column))))
            }));
        }
        LaidOut { lines, dropped }
    }

    /// Which columns stay; shrinks or widens names and bars to fill the page.
    fn choose(&self, widths: &mut [usize], page_width: usize) -> (Vec<usize>, Vec<String>) {
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let mut dropped = Vec::new();
        let wanted: Vec<usize> = (0..widths.len()).map(|column| self.wanted_width(column, widths[column])).collect();
        let needed: Vec<usize> = self.least_widths(widths);
        // For what names want, only columns of little importance leave; for what they need, any that may.
        for (least, leaves_min) in [(&wanted, LEAVES_FOR_NAMES), (&needed, 1)] {
            while total(least, &kept) > page_width {
                let may_leave = kept.iter().copied().filter(|&column| self.columns[column].leaves >= leaves_min);
                let Some(leaving) = may_leave.max_by_key(|&column| self.columns[column].leaves) else { break };
                kept.retain(|&column| column != leaving);
                dropped.push(self.columns[leaving].title.clone());
            }
        }
        // Columns of names give way to what they want first, the widest first, and then, all columns left being needed, further.
        let mut names: Vec<usize> = kept.iter().copied().filter(|&c| self.columns[c].gives_way()).collect();
        names.sort_by_key(|&column| std::cmp::Reverse(widths[column]));
        for least in [&wanted, &needed] {
            for &column in &names {
                let over = total(widths, &kept).saturating_sub(page_width);
                widths[column] = widths[column].saturating_sub(over).max(least[column].min(widths[column]));
            }
        }
        for &column in &kept {
            if self.columns[column].kind == Kind::Bar {
                widths[column] += page_width.saturating_sub(total(widths, &kept));
            }
        }
        (kept, dropped)
    }

    fn natural_widths(&self) -> Vec<usize> {
        let width = |cell: &Cell| match cell {
            Cell::Text(text) => text.width(),
            Cell::Bar(_) => BAR_WIDTH_MIN,
        };
        let of_column = |(place, column): (usize, &Column)| {
            let title = if column.kind == Kind::Bar { BAR_WIDTH_MIN } else { column.title.width() };
            self.rows.iter().map(|row| width(&row[place])).max().unwrap_or(0).max(title)
        };
        self.columns.iter().enumerate().map(of_column).collect()
    }

    /// Of columns of names what they can do with, wrapped; of others the whole.
    fn least_widths(&self, natural: &[usize]) -> Vec<usize> {
        let least = |(column, width): (usize, &usize)| match self.columns[column].kind {
            Kind::Name | Kind::Cut => NAME_WIDTH_MIN.min(*width),
            _ => *width,
        };
        natural.iter().enumerate().map(least).collect()
    }

    /// Of a column of names the width that they want, within limits; of others the whole.
    fn wanted_width(&self, column: usize, natural: usize) -> usize {
        match self.columns[column].kind {
            Kind::Name => (),
            Kind::Cut => return NAME_WIDTH_MIN.min(natural),
            _ => return natural,
        }
        let shortest = self.rows.iter().map(|row| match &row[column] {
            Cell::Text(text) => names::wanted_width(text),
            Cell::Bar(_) => 0,
        });
        shortest.max().unwrap_or(0).clamp(NAME_WIDTH_MIN, NAME_WIDTH_WANTED).min(natural)
    }

    fn title(&self, pen: &Pen, column: usize, width: usize) -> String {
        let Column { title, kind, .. } = &self.columns[column];
        pen.paint(Ink::Faint, &align(&pen.fit(title, width), *kind, width))
    }

    fn cell_lines(&self, pen: &Pen, column: usize, cell: &Cell, width: usize) -> Vec<String> {
        let kind = self.columns[column].kind;
        match cell {
            Cell::Text(text) if kind == Kind::Name => {
                let mut lines = names::wrapped(&names::shortened(text, width, pen.cut_mark()), width);
                if lines.len() > NAME_LINES_MAX {
                    lines.truncate(NAME_LINES_MAX);
                    lines[NAME_LINES_MAX - 1] = pen.cut(&lines[NAME_LINES_MAX - 1], width);
                }
                lines.iter().map(|line| align(line, kind, width)).collect()
            }
            Cell::Text(text) => vec![align(&pen.fit(text, width), kind, width)],
            Cell::Bar(parts) => vec![pen.bar(parts, width)],
        }
    }
}

/// Width of these columns with indent and gaps.
fn total(widths: &[usize], kept: &[usize]) -> usize {
    let columns: usize = kept.iter().map(|&column| widths[column]).sum();
    INDENT + columns + GAP * kept.len().saturating_sub(1)
}

fn join(cells: impl Iterator<Item = String>) -> String {
    " ".repeat(INDENT) + &cells.collect::<Vec<_>>().join(&" ".repeat(GAP))
}

fn align(text: &str, kind: Kind, width: usize) -> String {
    let space = " ".repeat(width.saturating_sub(text.width()));
    if kind == Kind::Number { space + text } else { text.to_string() + &space }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Style;

    fn table() -> Table {
        let columns = vec![
            Column::name("function"),
            Column::number("calls", 0),
            Column::number("mean", 2),
            Column::number("bytes", 1),
        ];
        let mut table = Table::new(columns);
        for (name, calls) in [("MPI_Sendrecv_with_a_long_name", "12"), ("f", "1,234,567")] {
            let mean = "123.456 microseconds".to_string();
            table.row([name.to_string(), calls.to_string(), mean, "8 KiB".to_string()].map(Cell::Text).into());
        }
        table
    }

    #[test]
    fn columns_leave_in_order_and_names_are_shortened_last() {
        let rows: [(usize, &[&str]); 4] = [(120, &[]), (62, &["mean"]), (50, &["mean"]), (40, &["mean"])];
        for (width, dropped) in rows {
            let laid_out = table().lay_out(&Pen::new(&Style {
                colour: false,
                width,
                unicode: true,
                paths: false,
                whole_names: false,
            }));
            assert_eq!(laid_out.dropped, dropped, "{width}");
            assert!(laid_out.lines.iter().all(|line| line.width() <= width), "{width}: {:#?}", laid_out.lines);
        }
    }
}
