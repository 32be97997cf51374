//! Arguments of programs in a site's store: hashes, unless their owner says otherwise. Equal ones are known to be equal all the
//! same, which is all that forecasts need.
//!
//! Next: `hidden` for the hash; `owned`, which keeps reports.

use crate::hidden::hidden;
use crate::rows::list_text;
use crate::{Error, Store};
use rusqlite::{Row, Transaction, params};

impl Store {
    /// True if a user's arguments are kept as they are.
    ///
    /// # Errors
    /// Those of reading.
    pub fn keeps_arguments(&self, owner: u32) -> Result<bool, Error> {
        let sql = "SELECT owner FROM arguments_kept WHERE owner = ?1";
        Ok(!self.rows("looking for a user's word", sql, [owner], |row| row.get::<_, u32>(0))?.is_empty())
    }

    /// A user's arguments are kept as they are from now on; or as hashes, those that are there already too.
    ///
    /// # Errors
    /// Those of writing; then nothing is changed.
    pub fn keep_arguments(&mut self, owner: u32, kept: bool) -> Result<(), Error> {
        let hidden = self.write("noting how arguments are kept", |transaction| match kept {
            true => {
                transaction.execute("INSERT OR IGNORE INTO arguments_kept (owner) VALUES (?1)", [owner])?;
                Ok(0)
            }
            false => {
                transaction.execute("DELETE FROM arguments_kept WHERE owner = ?1", [owner])?;
                hide_kept(transaction)
            }
        })?;
        self.wipe(hidden)
    }

    /// Hides the arguments of all users who have not said otherwise, as an earlier trimtab kept them.
    ///
    /// # Errors
    /// Those of writing; then nothing is changed.
    pub fn hide_arguments(&mut self) -> Result<(), Error> {
        let hidden = self.write("hiding arguments", hide_kept)?;
        self.wipe(hidden)
    }

    /// The file's unused parts still have what was hidden: it is written anew.
    fn wipe(&mut self, hidden: usize) -> Result<(), Error> {
        if hidden > 0 { self.vacuum() } else { Ok(()) }
    }
}

/// The jobs of those who have not said that their arguments are to be kept.
const OF_OTHERS: &str = "jobs.owner IS NOT NULL AND jobs.owner NOT IN (SELECT owner FROM arguments_kept)";

/// How many were not hidden.
fn hide_kept(transaction: &Transaction<'_>) -> rusqlite::Result<usize> {
    let jobs = format!("SELECT number, arguments FROM jobs WHERE {OF_OTHERS}");
    let of_jobs = rewrite(transaction, &jobs, "UPDATE jobs SET arguments = ?2 WHERE number = ?1")?;
    let windows = format!(
        "SELECT windows.number, json_extract(report, '$.job.arguments') FROM windows JOIN jobs ON jobs.number = windows.job \
         WHERE {OF_OTHERS}"
    );
    let put = "UPDATE windows SET report = json_set(report, '$.job.arguments', json(?2)) WHERE number = ?1";
    Ok(of_jobs + rewrite(transaction, &windows, put)?)
}

/// Puts hidden arguments in the place of those that are not; how many there were.
fn rewrite(transaction: &Transaction<'_>, all: &str, put: &str) -> rusqlite::Result<usize> {
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let all: Vec<(i64, String)> = transaction.prepare(all)?.query_map([], read)?.collect::<Result<_, _>>()?;
    let (mut put, mut count) = (transaction.prepare(put)?, 0);
    for (number, text) in all {
        // Words that can't be read are nobody's arguments any more.
        let words: Vec<String> = serde_json::from_str(&text).unwrap_or_default();
        let kept = hidden(&words);
        if kept != words {
            count += put.execute(params![number, list_text(&kept)])?;
        }
    }
    Ok(count)
}
