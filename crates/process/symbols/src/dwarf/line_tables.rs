//! Line tables as they are read, and those that were read so far.
//!
//! Next: `lines`, which answers from them.

use super::error::LookupError;
use super::units::Slice;
use gimli::IncompleteLineProgram;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

/// Rows of one table at most.
pub(super) const ROWS_MAX: usize = 1 << 23;

/// The tables that were read so far, by their offset, since units may share one.
#[derive(Default)]
pub(crate) struct Lines {
    pub(super) files: Mutex<HashMap<usize, Arc<Files>>>,
    pub(super) tables: Mutex<HashMap<usize, Arc<Table>>>,
    pub(super) bytes_read: Mutex<u64>,
    /// The answers for each file asked for: every question about one of its lines begins with it.
    pub(super) by_name: Mutex<HashMap<String, FoundFile>>,
    /// One unit for each table.
    pub(super) owners: OnceLock<Vec<(usize, usize)>>,
}

/// A file's full name, and the tables that have rows of it with its numbers in each.
pub(super) type FoundFile = Result<(String, Vec<(Arc<Table>, Vec<u16>)>), LookupError>;

/// Full names of files by their number in one table.
#[derive(Default)]
pub(super) struct Files {
    pub(super) names: Vec<String>,
}

/// One unit's rows.
#[derive(Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    /// By ascending first address.
    pub(super) sequences: Vec<Sequence>,
}

pub(super) struct Row {
    pub(super) addr: u64,
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) file: u16,
    pub(super) is_statement: bool,
}

pub(super) struct Sequence {
    pub(super) addrs: Range<u64>,
    pub(super) rows: Range<usize>,
}

impl Files {
    /// Full names that end with `wanted`, each with its numbers.
    pub(super) fn matching<'f>(&'f self, wanted: &str) -> BTreeMap<&'f str, Vec<u16>> {
        let mut found: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
        for (name, number) in self.names.iter().zip(0_u16..) {
            let before = name.strip_suffix(wanted).filter(|_| !wanted.is_empty());
            if before.is_some_and(|before| before.is_empty() || before.ends_with('/') || wanted.starts_with('/')) {
                found.entry(name).or_default().push(number);
            }
        }
        found
    }
}

impl Table {
    pub(super) fn read(program: IncompleteLineProgram<Slice<'_>>, is_code: &dyn Fn(u64) -> bool) -> Table {
        let mut table = Table::default();
        let mut first = 0;
        let mut rows = program.rows();
        // The rows before a damaged one are sound.
        while let Ok(Some((_, row))) = rows.next_row() {
            if row.end_sequence() {
                table.end_sequence(first, row.address(), is_code);
                first = table.rows.len();
                continue;
            }
            if table.rows.len() >= ROWS_MAX {
                break;
            }
            let column = match row.column() {
                gimli::ColumnType::LeftEdge => 0,
                gimli::ColumnType::Column(column) => u32::try_from(column.get()).unwrap_or(0),
            };
            table.rows.push(Row {
                addr: row.address(),
                line: row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0),
                column,
                file: u16::try_from(row.file_index()).unwrap_or(u16::MAX),
                is_statement: row.is_stmt(),
            });
        }
        table.rows.truncate(first);
        table.rows.shrink_to_fit();
        table.sequences.sort_by_key(|sequence| sequence.addrs.start);
        table
    }

    /// Keeps the rows since `first` as one sequence, unless the linker dropped its code.
    pub(super) fn end_sequence(&mut self, first: usize, end: u64, is_code: &dyn Fn(u64) -> bool) {
        let rows = &mut self.rows[first..];
        if !rows.is_sorted_by_key(|row| row.addr) {
            rows.sort_by_key(|row| row.addr);
        }
        let start = rows.first().map_or(0, |row| row.addr);
        if start > 1 && start < end && is_code(start) {
            self.sequences.push(Sequence { addrs: start..end, rows: first..self.rows.len() });
        } else {
            self.rows.truncate(first);
        }
    }

    /// Where stretches of a line's code begin, with their columns.
    pub(super) fn stretches(&self, line: u32, numbers: &[u16]) -> Vec<(u64, u32)> {
        let mut starts = Vec::new();
        for sequence in &self.sequences {
            let mut inside = false;
            // Instructions of other lines that were moved in between begin no statement, and end no stretch.
            for row in self.rows[sequence.rows.clone()].iter().filter(|row| row.is_statement) {
                let is_wanted = row.line == line && numbers.contains(&row.file);
                if is_wanted && !inside {
                    starts.push((row.addr, row.column));
                }
                inside = is_wanted;
            }
        }
        starts
    }

    pub(super) fn row_at(&self, addr: u64) -> Option<&Row> {
        let after = self.sequences.partition_point(|sequence| sequence.addrs.start <= addr);
        let sequence = self.sequences[..after].last().filter(|sequence| sequence.addrs.contains(&addr))?;
        let rows = &self.rows[sequence.rows.clone()];
        let after = rows.partition_point(|row| row.addr <= addr);
        rows[..after].last()
    }
}
