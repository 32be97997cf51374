//! How an empty file, or an older store, becomes a store of today's shape.
//!
//! Migrations are numbered SQL files, applied in order, each in one transaction that also moves `PRAGMA user_version`:
//! a crash leaves the store at the version before or after, never between. `PRAGMA application_id` tells our files from
//! other programs' databases, which are never touched.
//!
//! Next: `migrations/` for the tables themselves.

use crate::Error;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::Path;

/// The schema version this crate writes: the number of the last migration.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// "trim" as SQLite's application id: marks a file as ours.
const APPLICATION_ID: i64 = 0x7472_696d;

/// Migration N brings version N - 1 to version N, counted from 1; its number is its place in this list.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_jobs_and_windows.sql"),
    include_str!("../migrations/0002_events.sql"),
    include_str!("../migrations/0003_owners.sql"),
    include_str!("../migrations/0004_runs_and_forecasts.sql"),
    include_str!("../migrations/0005_models.sql"),
    include_str!("../migrations/0006_series.sql"),
    include_str!("../migrations/0007_schedulers.sql"),
    include_str!("../migrations/0008_pressures.sql"),
    include_str!("../migrations/0009_arguments.sql"),
];

/// Brings the store to [`SCHEMA_VERSION`], or refuses a newer or foreign file without touching it.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), Error> {
    apply(connection, path, MIGRATIONS)
}

/// Checks that the store can be read as it is.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), Error> {
    let known = SCHEMA_VERSION;
    match version(connection, path)? {
        found if found > known => Err(Error::Newer { path: path.to_path_buf(), found, known }),
        found if found < known => Err(Error::Older { path: path.to_path_buf(), found, known }),
        _ => Ok(()),
    }
}

fn apply(connection: &mut Connection, path: &Path, migrations: &[&str]) -> Result<(), Error> {
    let known = migrations.len() as i64;
    loop {
        let from = version(connection, path)?;
        if from > known {
            return Err(Error::Newer { path: path.to_path_buf(), found: from, known });
        }
        if from == known {
            return Ok(());
        }
        step(connection, path, migrations, known)?;
    }
}

/// Applies the next migration; another process may have done so meanwhile, so the version is read again under the lock.
fn step(connection: &mut Connection, path: &Path, migrations: &[&str], known: i64) -> Result<(), Error> {
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|source| Error::of_sqlite(path, "locking it for a migration", source))?;
    let from = version(&transaction, path)?;
    let Some(sql) = usize::try_from(from).ok().and_then(|from| migrations.get(from)) else {
        return Ok(());
    };
    run(transaction, sql, from + 1).map_err(|source| migration_error(path, from, known, source))
}

fn run(transaction: Transaction<'_>, sql: &str, to: i64) -> rusqlite::Result<()> {
    transaction.execute_batch(sql)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", to)?;
    transaction.commit()
}

/// A full disk or a read-only file is told as such; anything else is the migration's own failure.
fn migration_error(path: &Path, from: i64, to: i64, source: rusqlite::Error) -> Error {
    match Error::of_sqlite(path, "migrating it", source) {
        Error::Database { path, source, .. } => Error::Migration { path, from, to, source },
        told => told,
    }
}

/// The file's schema version, 0 if it is empty.
fn version(connection: &Connection, path: &Path) -> Result<i64, Error> {
    let facts = "SELECT (SELECT user_version FROM pragma_user_version), \
                 (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)";
    let (version, application_id, tables): (i64, i64, i64) = connection
        .query_row(facts, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .map_err(|source| Error::of_sqlite(path, "reading its schema version", source))?;
    let empty = version == 0 && application_id == 0 && tables == 0;
    let ours = application_id == APPLICATION_ID && version > 0;
    if empty || ours { Ok(version) } else { Err(Error::ForeignDatabase { path: path.to_path_buf() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "test.db";

    fn tables(connection: &Connection) -> Vec<String> {
        let mut statement =
            connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1").unwrap();
        let names = statement.query_map([], |row| row.get(0)).unwrap();
        names.map(Result::unwrap).collect()
    }

    #[test]
    fn each_migration_is_applied_once_and_in_order() {
        let mut connection = Connection::open_in_memory().unwrap();
        let first = "CREATE TABLE a (x); INSERT INTO a VALUES (1);";
        let second = "CREATE TABLE b (x); INSERT INTO b SELECT x + 1 FROM a;";
        apply(&mut connection, Path::new(PATH), &[first]).unwrap();
        assert_eq!(version(&connection, Path::new(PATH)).unwrap(), 1);
        for _ in 0..2 {
            apply(&mut connection, Path::new(PATH), &[first, second]).unwrap();
        }
        let carried: Vec<i64> = connection
            .prepare("SELECT x FROM b")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!((version(&connection, Path::new(PATH)).unwrap(), carried), (2, vec![2]));
    }

    #[test]
    fn a_failing_migration_leaves_the_version_before() {
        let mut connection = Connection::open_in_memory().unwrap();
        let broken = "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1);";
        let error = apply(&mut connection, Path::new(PATH), &["CREATE TABLE a (x);", broken]).unwrap_err();
        assert!(matches!(error, Error::Migration { from: 1, to: 2, .. }), "{error:?}");
        assert_eq!(version(&connection, Path::new(PATH)).unwrap(), 1);
        assert_eq!(tables(&connection), ["a"]);
    }

    #[test]
    fn migration_files_are_numbered_as_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names.len(), MIGRATIONS.len(), "every file is listed in MIGRATIONS: {names:?}");
        for (place, name) in names.iter().enumerate() {
            assert!(name.starts_with(&format!("{:04}_", place + 1)) && name.ends_with(".sql"), "{name}");
        }
    }
}
