//! The jobs of many users in one store: a site's.
//!
//! Each job has an owner, the user whose processes its ranks are, and what one owner keeps has a bound, so that nobody
//! fills the disk for all: the oldest windows make room for the newest. A key is an owner's own, since it is made of what
//! the owner's command said: two users can't be taken for one job.
//!
//! Next: `store.rs` for what is asked of any store.

use crate::hidden::hidden;
use crate::store::{name_job, write_job};
use crate::{Error, JobId, JobSummary, Store};
use rusqlite::{Row, Transaction, params};
use trimtab_types::report::Report;

/// The room that one owner's windows may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Windows.
    pub window_count_max: u32,
    /// Bytes of their reports, as text.
    pub byte_count_max: u64,
}

/// Runs kept of an owner: far less than a window's report each, and they outlive those.
const RUN_COUNT_MAX: u32 = 10_000;

/// The windows of an owner from the newest on, each with its place and the bytes up to it; those that have no room.
const WITHOUT_ROOM: &str = "SELECT number FROM (SELECT windows.number AS number, row_number() OVER newest AS place, \
                            sum(octet_length(report)) OVER newest AS bytes \
                            FROM windows JOIN jobs ON jobs.number = windows.job WHERE jobs.owner = ?1 \
                            WINDOW newest AS (ORDER BY windows.number DESC)) \
                            WHERE place > 1 AND (place > ?2 OR bytes > ?3)";

/// A job's key in a site's store.
pub fn site_key(owner: u32, key: &str) -> String {
    format!("{owner} {key}")
}

impl Store {
    /// Keeps a window of a user's job under the next free number: where it is found again. Older windows of that user go
    /// if there is no room; this one always has some. Unless the owner has said otherwise, arguments are kept as a hash.
    ///
    /// # Errors
    /// [`Error::UnstorableReport`], and those of writing.
    pub fn file(&mut self, owner: u32, key: &str, report: &Report, room: Room) -> Result<(JobId, u32), Error> {
        let key = site_key(owner, key);
        let mut window = report.clone();
        if !self.keeps_arguments(owner)? {
            window.job.arguments = hidden(&report.job.arguments);
        }
        let id = self.write("writing a job", |transaction| {
            let (number, id) = name_job(transaction, &window.job, &key)?;
            write_job(transaction, number, &id, &window.job, &key)?;
            transaction.execute("UPDATE jobs SET owner = ?2 WHERE number = ?1", params![number, owner])?;
            Ok(JobId(id))
        })?;
        window.window.number = self.next_window(&id)?;
        let number = self.insert_window(&id, &window)?;
        self.write("making room", |transaction| make_room(transaction, owner, room))?;
        Ok((id, number))
    }

    /// An owner's jobs, or all owners', as [`Store::list_jobs`] does, so many at most.
    ///
    /// # Errors
    /// Those of reading.
    pub fn list_jobs_of(&self, owner: Option<u32>, count_max: u32) -> Result<Vec<JobSummary>, Error> {
        let newest_first = "jobs.owner IS NOT NULL AND (?1 IS NULL OR jobs.owner = ?1) ORDER BY (SELECT \
                            max(windows.number) FROM windows WHERE windows.job = jobs.number) DESC NULLS LAST, \
                            jobs.number DESC LIMIT ?2";
        self.jobs_where(newest_first, params![owner, count_max])
    }

    /// How many jobs there are, and how many windows.
    ///
    /// # Errors
    /// Those of reading.
    pub fn counts(&self) -> Result<(u64, u64), Error> {
        let sql = "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM windows)";
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let (jobs, windows) = self.rows("counting jobs", sql, [], read)?.pop().unwrap_or_default();
        Ok((jobs.cast_unsigned(), windows.cast_unsigned()))
    }

    /// The job that is called exactly this.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], and those of reading.
    pub fn job_called(&self, id: &str) -> Result<JobSummary, Error> {
        self.job(&JobId(id.to_owned()))
    }
}

fn make_room(transaction: &Transaction<'_>, owner: u32, room: Room) -> rusqlite::Result<()> {
    let bytes = room.byte_count_max.cast_signed();
    let sql = format!("DELETE FROM windows WHERE number IN ({WITHOUT_ROOM})");
    transaction.execute(&sql, params![owner, room.window_count_max, bytes])?;
    let empty = "DELETE FROM jobs WHERE owner = ?1 AND NOT EXISTS (SELECT 1 FROM windows WHERE job = jobs.number)";
    transaction.execute(empty, [owner])?;
    let old = "DELETE FROM runs WHERE owner = ?1 AND number <= (SELECT number FROM runs WHERE owner = ?1 \
               ORDER BY number DESC LIMIT 1 OFFSET ?2)";
    transaction.execute(old, params![owner, RUN_COUNT_MAX]).map(|_| ())
}
