//! Columns that line up, and that leave in order of importance when the terminal is narrow.
//!
//! Next: `pen.rs` for the characters; `terminal.rs` and `ranks.rs` for the tables themselves.

use super::pen::{Ink, Pen};
use unicode_width::UnicodeWidthStr;

/// Spaces before the first column.
const INDENT: usize = 2;

/// Spaces between columns.
const GAP: usize = 2;

/// A name is not cut below this width: then a column has to leave instead.
const NAME_WIDTH_MIN: usize = 14;

/// A bar is not drawn shorter than this.
const BAR_WIDTH_MIN: usize = 12;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Left, cut where it must be.
    Name,
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

    pub(crate) fn text(title: &str, leaves: u8) -> Column {
        Column { title: title.to_string(), kind: Kind::Text, leaves }
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

    /// Whether all columns fit, none cut.
    pub(crate) fn fits(&self, pen: &Pen) -> bool {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        total(&self.natural_widths(), &all) <= pen.width
    }

    /// Header and rows for this terminal.
    pub(crate) fn lay_out(&self, pen: &Pen) -> LaidOut {
        let mut widths = self.natural_widths();
        let (kept, dropped) = self.choose(&mut widths, pen.width);
        let header = kept.iter().map(|&column| self.title(pen, column, widths[column]));
        let mut lines = vec![join(header)];
        for row in &self.rows {
            lines.push(join(kept.iter().map(|&column| self.cell(pen, column, &row[column], widths[column]))));
        }
        LaidOut { lines, dropped }
    }

    /// Which columns stay; shrinks or widens names and bars to fill the page.
    fn choose(&self, widths: &mut [usize], page_width: usize) -> (Vec<usize>, Vec<String>) {
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let mut dropped = Vec::new();
        let least: Vec<usize> = (0..widths.len()).map(|column| self.least_width(column, widths[column])).collect();
        while total(&least, &kept) > page_width {
            let Some(leaving) =
                kept.iter().copied().filter(|&c| self.columns[c].leaves > 0).max_by_key(|&c| self.columns[c].leaves)
            else {
                break;
            };
            kept.retain(|&column| column != leaving);
            dropped.push(self.columns[leaving].title.clone());
        }
        for &column in &kept {
            let over = total(widths, &kept).saturating_sub(page_width);
            if self.columns[column].kind == Kind::Name {
                widths[column] = widths[column].saturating_sub(over).max(least[column]);
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

    fn least_width(&self, column: usize, natural: usize) -> usize {
        if self.columns[column].kind == Kind::Name { natural.min(NAME_WIDTH_MIN) } else { natural }
    }

    fn title(&self, pen: &Pen, column: usize, width: usize) -> String {
        let Column { title, kind, .. } = &self.columns[column];
        pen.paint(Ink::Faint, &align(&pen.fit(title, width), *kind, width))
    }

    fn cell(&self, pen: &Pen, column: usize, cell: &Cell, width: usize) -> String {
        match cell {
            Cell::Text(text) => align(&pen.fit(text, width), self.columns[column].kind, width),
            Cell::Bar(parts) => pen.bar(parts, width),
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
    fn columns_leave_in_order_and_names_are_cut_last() {
        let rows: [(usize, &[&str]); 4] = [(120, &[]), (62, &[]), (50, &["mean"]), (40, &["mean"])];
        for (width, dropped) in rows {
            let laid_out = table().lay_out(&Pen::new(&Style { colour: false, width, unicode: true, paths: false }));
            assert_eq!(laid_out.dropped, dropped, "{width}");
            assert!(laid_out.lines.iter().all(|line| line.width() <= width), "{width}: {:#?}", laid_out.lines);
        }
    }
}
