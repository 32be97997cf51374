//! A run's row in the store's file.
//!
//! Next: `kept`, which asks for rows; `migrations/` for the table.

use crate::history::{Companion, Run, RunEnd};
use crate::rows::{list_text, of_no_set, read_json, read_list};
use rusqlite::{OptionalExtension, Row, Transaction, params};
use trimtab_types::report::NeighbourKind;

/// Columns of a run, in the order [`read_run`] takes them.
pub(crate) const RUN_COLUMNS: &str = "runs.key, runs.job, runs.owner, runs.program, runs.build, runs.arguments_hash, runs.ranks, \
                           runs.hosts, runs.companions, runs.iterations_done, runs.iterations_total, \
                           runs.iterations_at_most, runs.started_unix_s, runs.seen_unix_s, runs.ended_after_unix_s, \
                           runs.ended_before_unix_s";
/// How many these are.
pub(crate) const RUN_COLUMN_COUNT: usize = 16;

/// Adds a run, or what a later sighting says of it; the lock is held.
pub(crate) fn write_run(transaction: &Transaction<'_>, run: &Run) -> rusqlite::Result<()> {
    let known = format!("SELECT {RUN_COLUMNS} FROM runs WHERE key = ?1");
    let known = transaction.query_row(&known, [&run.key], read_run).optional()?;
    let run = known.map_or_else(|| run.clone(), |known| known.then(run.clone()));
    let sql = "INSERT INTO runs (key, job, owner, program, build, arguments_hash, ranks, hosts, companions, \
               iterations_done, iterations_total, iterations_at_most, started_unix_s, seen_unix_s, ended_after_unix_s, \
               ended_before_unix_s) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
               ON CONFLICT (key) DO UPDATE SET job = ?2, owner = ?3, program = ?4, build = ?5, arguments_hash = ?6, \
               ranks = ?7, hosts = ?8, companions = ?9, iterations_done = ?10, iterations_total = ?11, \
               iterations_at_most = ?12, started_unix_s = ?13, seen_unix_s = ?14, ended_after_unix_s = ?15, \
               ended_before_unix_s = ?16";
    let values = params![
        run.key,
        run.job,
        run.owner,
        run.program,
        run.build,
        run.arguments_hash,
        run.ranks,
        list_text(&run.hosts),
        companions_text(&run.companions),
        run.iterations_done.map(u64::cast_signed),
        run.iterations_total.map(u64::cast_signed),
        run.iterations_at_most.map(u64::cast_signed),
        run.started_unix_s,
        run.seen_unix_s,
        run.ended.map(|end| end.after_unix_s),
        run.ended.map(|end| end.before_unix_s),
    ];
    transaction.execute(sql, values).map(|_| ())
}

/// Reads a run.
pub(crate) fn read_run(row: &Row<'_>) -> rusqlite::Result<Run> {
    let count = |column: usize| row.get::<_, Option<i64>>(column).map(|count| count.map(i64::cast_unsigned));
    let ended = row.get::<_, Option<f64>>(14)?.zip(row.get(15)?);
    Ok(Run {
        key: row.get(0)?,
        job: row.get(1)?,
        owner: row.get(2)?,
        program: row.get(3)?,
        build: row.get(4)?,
        arguments_hash: row.get(5)?,
        ranks: row.get(6)?,
        hosts: read_list(row, 7)?,
        companions: read_companions(row, 8)?,
        iterations_done: count(9)?,
        iterations_total: count(10)?,
        iterations_at_most: count(11)?,
        started_unix_s: row.get(12)?,
        seen_unix_s: row.get(13)?,
        ended: ended.map(|(after_unix_s, before_unix_s)| RunEnd { after_unix_s, before_unix_s }),
    })
}

fn read_companions(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<Companion>> {
    let all: Vec<[String; 3]> = read_json(row, column)?;
    let companion = |[kind, name, program]: [String; 3]| {
        let unknown = || of_no_set(column, format!("no companion is a {kind:?}"));
        Ok(Companion { kind: NeighbourKind::from_word(&kind).ok_or_else(unknown)?, name, program })
    };
    all.into_iter().map(companion).collect()
}

fn companions_text(companions: &[Companion]) -> String {
    let words = companions.iter().map(|one| [one.kind.word(), &one.name, &one.program].map(str::to_owned).to_vec());
    serde_json::Value::from(words.collect::<Vec<_>>()).to_string()
}
