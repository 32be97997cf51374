//! Models of routines, the hosts they were made on, and what they forecast: as they are kept, whatever is in them.
//!
//! Next: `kept` for the file, `memory` for the twin; `trimtab-routine` for models themselves.

use crate::rows::{list_text, read_list};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Row, ToSql, Transaction, params};

/// A model of a routine on a kind of host.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineModel {
    /// The name that the user gave it.
    pub name: String,
    /// Hosts of the same kind share it.
    pub host_kind: String,
    /// The words that were run, with their placeholders.
    pub command: Vec<String>,
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
    /// Terms, range, errors and measurements, as JSON.
    pub content: String,
}

/// A host on which a model was made.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownHost {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// How fast it is, as JSON.
    pub speed: String,
    /// When that was measured, seconds since 1970.
    pub seen_unix_s: f64,
}

/// Time or memory that a model forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeForecast {
    /// The model's name.
    pub model: String,
    /// The host.
    pub host: String,
    /// "seconds" or "bytes".
    pub unit: String,
    /// The size of each parameter, "n=4096".
    pub sizes: Vec<String>,
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
    /// The expected value.
    pub value: f64,
    /// 90% were to lie between this
    pub lower: f64,
    /// and this.
    pub upper: f64,
    /// True if a size was outside of what was measured.
    pub outside: bool,
    /// The value that came; `None`: not known.
    pub came: Option<f64>,
}

/// Columns of a model, in the order [`read_model`] takes them.
pub(crate) const MODEL_COLUMNS: &str = "name, host_kind, command, made_unix_s, content";

/// Adds a model, or puts it in the place of the one of that name and kind of host.
pub(crate) fn write_model(transaction: &Transaction<'_>, model: &RoutineModel) -> rusqlite::Result<()> {
    let sql = "INSERT INTO models (name, host_kind, command, made_unix_s, content) VALUES (?1, ?2, ?3, ?4, ?5) \
               ON CONFLICT (name, host_kind) DO UPDATE SET command = ?3, made_unix_s = ?4, content = ?5";
    let RoutineModel { name, host_kind, command, made_unix_s, content } = model;
    transaction.execute(sql, params![name, host_kind, list_text(command), made_unix_s, content]).map(|_| ())
}

/// Reads a model.
pub(crate) fn read_model(row: &Row<'_>) -> rusqlite::Result<RoutineModel> {
    Ok(RoutineModel {
        name: row.get(0)?,
        host_kind: row.get(1)?,
        command: read_list(row, 2)?,
        made_unix_s: row.get(3)?,
        content: row.get(4)?,
    })
}

/// Adds a host, or what is known of it now.
pub(crate) fn write_host(transaction: &Transaction<'_>, host: &KnownHost) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO hosts (name, kind, speed, seen_unix_s) VALUES (?1, ?2, ?3, ?4)";
    transaction.execute(sql, params![host.name, host.kind, host.speed, host.seen_unix_s]).map(|_| ())
}

/// Reads a host.
pub(crate) fn read_host(row: &Row<'_>) -> rusqlite::Result<KnownHost> {
    Ok(KnownHost { name: row.get(0)?, kind: row.get(1)?, speed: row.get(2)?, seen_unix_s: row.get(3)? })
}

/// Adds a forecast.
pub(crate) fn write_size_forecast(transaction: &Transaction<'_>, one: &SizeForecast) -> rusqlite::Result<()> {
    let sql = "INSERT INTO size_forecasts (model, host, unit, sizes, made_unix_s, value, lower, upper, outside, came) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let sizes = list_text(&one.sizes);
    let values: [&dyn ToSql; 10] = [
        &one.model,
        &one.host,
        &one.unit,
        &sizes,
        &one.made_unix_s,
        &one.value,
        &one.lower,
        &one.upper,
        &ToSqlOutput::from(one.outside),
        &one.came,
    ];
    transaction.execute(sql, values).map(|_| ())
}

/// Reads a forecast.
pub(crate) fn read_size_forecast(row: &Row<'_>) -> rusqlite::Result<SizeForecast> {
    Ok(SizeForecast {
        model: row.get(0)?,
        host: row.get(1)?,
        unit: row.get(2)?,
        sizes: read_list(row, 3)?,
        made_unix_s: row.get(4)?,
        value: row.get(5)?,
        lower: row.get(6)?,
        upper: row.get(7)?,
        outside: row.get(8)?,
        came: row.get(9)?,
    })
}
