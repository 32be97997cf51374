//! Programs' answers to pressure on resources, as they are kept, whatever is in them.
//!
//! Next: `kept` for the file, `memory` for the twin; `trimtab-corun` for the answers themselves.

use rusqlite::{Row, Transaction, params};

/// An answer to pressure on one host.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptPressure {
    /// The host.
    pub host: String,
    /// The program, or the host's own probes.
    pub of: Pressured,
    /// Path of the executable; empty with the host's own.
    pub program: String,
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
    /// Curves and levels, as JSON.
    pub content: String,
}

/// The program whose answer it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pressured {
    /// Build id of the program; empty: probes of the host beside each other.
    pub build: String,
    /// SHA-256 of its arguments.
    pub arguments_hash: String,
    /// Ranks.
    pub ranks: u32,
}

/// Columns of an answer, in the order [`read_pressure`] takes them.
pub(crate) const PRESSURE_COLUMNS: &str = "host, build, arguments_hash, ranks, program, made_unix_s, content";

/// Adds an answer, or puts it in the place of the earlier one.
pub(crate) fn write_pressure(transaction: &Transaction<'_>, kept: &KeptPressure) -> rusqlite::Result<()> {
    let sql = "INSERT INTO pressures (host, build, arguments_hash, ranks, program, made_unix_s, content) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (host, build, arguments_hash, ranks) \
               DO UPDATE SET program = ?5, made_unix_s = ?6, content = ?7";
    let KeptPressure { host, of: Pressured { build, arguments_hash, ranks }, program, made_unix_s, content } = kept;
    let values = params![host, build, arguments_hash, ranks, program, made_unix_s, content];
    transaction.execute(sql, values).map(|_| ())
}

/// Reads an answer.
pub(crate) fn read_pressure(row: &Row<'_>) -> rusqlite::Result<KeptPressure> {
    Ok(KeptPressure {
        host: row.get(0)?,
        of: Pressured { build: row.get(1)?, arguments_hash: row.get(2)?, ranks: row.get(3)? },
        program: row.get(4)?,
        made_unix_s: row.get(5)?,
        content: row.get(6)?,
    })
}
