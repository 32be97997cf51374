//! The page as it grows: lines, sections, facts and tables.
//!
//! Next: `pen` for colours and widths, `table` for tables.

use super::pen::{Ink, Pen};
use super::table::Table;
use crate::clean::clean;
use crate::words::{self, Fact, Tone};
use trimtab_types::report::Report;

/// Width of the names of facts.
const FACT_NAME_WIDTH: usize = 14;

/// The page so far, and what writes on it.
/// The page while it is being written.
pub(super) struct Page {
    pub(super) pen: Pen,
    pub(super) text: String,
}

impl Page {
    pub(super) fn line(&mut self, text: &str) {
        self.text += text.trim_end();
        self.text.push('\n');
    }

    pub(super) fn headline(&mut self, report: &Report, headline: &str) {
        for line in self.pen.wrap(&clean(headline), 0) {
            self.line(&self.pen.paint(Ink::Strong, &line));
        }
        if let Some(why) = words::invalid(report) {
            for line in self.pen.wrap(&why, 0) {
                self.line(&self.pen.paint(Ink::Bad, &line));
            }
        }
    }

    pub(super) fn section(&mut self, title: &str) {
        self.text.push('\n');
        self.line(&self.pen.rule(title));
    }

    /// Names and values, the values wrapped under each other.
    pub(super) fn facts(&mut self, facts: &[Fact]) {
        for fact in facts {
            let ink = match fact.tone {
                Tone::Plain => Ink::Plain,
                Tone::Bad => Ink::Bad,
                Tone::Warn => Ink::Warn,
            };
            let mut name = fact.name;
            for line in self.pen.wrap(&fact.value, FACT_NAME_WIDTH + 3) {
                let name_cell = self.pen.paint(Ink::Faint, &format!("{name:<FACT_NAME_WIDTH$}"));
                self.line(&format!("  {name_cell} {}", self.pen.paint(ink, &line)));
                name = "";
            }
        }
    }

    /// Text in the section's body.
    pub(super) fn note(&mut self, ink: Ink, text: &str) {
        for line in self.pen.wrap(text, 2) {
            self.line(&format!("  {}", self.pen.paint(ink, &line)));
        }
    }

    pub(super) fn table(&mut self, table: &Table) {
        let laid_out = table.lay_out(&self.pen);
        for line in laid_out.lines {
            self.line(&line);
        }
        if !laid_out.dropped.is_empty() {
            self.note(Ink::Faint, &format!("(not shown, too narrow: {})", laid_out.dropped.join(", ")));
        }
    }
}
