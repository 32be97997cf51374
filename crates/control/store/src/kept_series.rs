//! Series in the store's file.
//!
//! Next: `series` for what they are, `migrations/` for the tables.

use crate::series::{SERIES_AGE_MAX_S, SERIES_VALUES_MAX, SeriesName, SeriesValue, check};
use crate::{Error, Store};
use rusqlite::{OptionalExtension, Transaction, params};
use std::collections::BTreeMap;

impl Store {
    pub(crate) fn add_values(&mut self, values: &[(SeriesName, SeriesValue)]) -> Result<(), Error> {
        let mut newest: BTreeMap<&SeriesName, SeriesValue> = BTreeMap::new();
        for (name, value) in values {
            let before = match newest.get(name) {
                Some(before) => Some(*before),
                None => self.values_of(name, 1)?.pop(),
            };
            check(name, before, *value)?;
            newest.insert(name, *value);
        }
        self.write("writing series", |transaction| {
            values.iter().try_for_each(|(name, value)| add(transaction, name, *value))?;
            newest.iter().try_for_each(|(name, value)| make_room(transaction, name, *value))
        })
    }

    pub(crate) fn values_of(&self, name: &SeriesName, count_max: u32) -> Result<Vec<SeriesValue>, Error> {
        let sql = "SELECT at_unix_s, value FROM series_values JOIN series ON number = series \
                   WHERE host = ?1 AND peer = ?2 AND figure = ?3 ORDER BY at_unix_s DESC LIMIT ?4";
        let peer = name.peer.as_deref().unwrap_or_default();
        let read = |row: &rusqlite::Row<'_>| Ok(SeriesValue { at_unix_s: row.get(0)?, value: row.get(1)? });
        let mut values = self.rows("reading a series", sql, params![name.host, peer, name.figure, count_max], read)?;
        values.reverse();
        Ok(values)
    }

    pub(crate) fn names_of_series(&self) -> Result<Vec<SeriesName>, Error> {
        let sql = "SELECT host, peer, figure FROM series ORDER BY host, peer, figure";
        let read = |row: &rusqlite::Row<'_>| {
            let peer: String = row.get(1)?;
            Ok(SeriesName { host: row.get(0)?, peer: (!peer.is_empty()).then_some(peer), figure: row.get(2)? })
        };
        self.rows("reading names of series", sql, [], read)
    }
}

fn add(transaction: &Transaction<'_>, name: &SeriesName, value: SeriesValue) -> rusqlite::Result<()> {
    let number = number_of(transaction, name)?;
    let add = "INSERT INTO series_values VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET value = ?3";
    transaction.execute(add, params![number, value.at_unix_s, value.value]).map(|_| ())
}

/// Values that are too old beside the newest one go, and those that are too many.
fn make_room(transaction: &Transaction<'_>, name: &SeriesName, newest: SeriesValue) -> rusqlite::Result<()> {
    let number = number_of(transaction, name)?;
    let old = "DELETE FROM series_values WHERE series = ?1 AND (at_unix_s < ?2 OR at_unix_s <= (SELECT at_unix_s FROM \
               series_values WHERE series = ?1 ORDER BY at_unix_s DESC LIMIT 1 OFFSET ?3))";
    transaction.execute(old, params![number, newest.at_unix_s - SERIES_AGE_MAX_S, SERIES_VALUES_MAX]).map(|_| ())
}

fn number_of(transaction: &Transaction<'_>, name: &SeriesName) -> rusqlite::Result<i64> {
    let peer = name.peer.as_deref().unwrap_or_default();
    let known = "SELECT number FROM series WHERE host = ?1 AND peer = ?2 AND figure = ?3";
    let known = transaction.query_row(known, params![name.host, peer, name.figure], |row| row.get(0)).optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    let add = "INSERT INTO series (host, peer, figure) VALUES (?1, ?2, ?3)";
    transaction.execute(add, params![name.host, peer, name.figure])?;
    Ok(transaction.last_insert_rowid())
}
