//! The schedulers that users of a site let have their jobs measured. Without a word of a user none is accepted.
//!
//! Next: `owned` for these users' jobs.

use crate::{Error, Store};
use rusqlite::{Row, params};

/// A user lets a scheduler have their jobs measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcceptedScheduler {
    /// The user.
    pub owner: u32,
    /// The scheduler's user.
    pub scheduler: u32,
    /// Since when, seconds since 1970.
    pub since_unix_s: f64,
}

impl Store {
    /// A user lets a scheduler have their jobs measured from now on. The moment of an earlier word stays.
    ///
    /// # Errors
    /// Those of writing.
    pub fn accept(&mut self, accepted: AcceptedScheduler) -> Result<(), Error> {
        let AcceptedScheduler { owner, scheduler, since_unix_s } = accepted;
        let sql = "INSERT OR IGNORE INTO accepted_schedulers (owner, scheduler, since_unix_s) VALUES (?1, ?2, ?3)";
        self.write("accepting a scheduler", |transaction| {
            transaction.execute(sql, params![owner, scheduler, since_unix_s]).map(|_| ())
        })
    }

    /// A user lets a scheduler do so no more; whether it was accepted.
    ///
    /// # Errors
    /// Those of writing.
    pub fn withdraw(&mut self, owner: u32, scheduler: u32) -> Result<bool, Error> {
        let sql = "DELETE FROM accepted_schedulers WHERE owner = ?1 AND scheduler = ?2";
        self.write("withdrawing from a scheduler", |transaction| {
            transaction.execute(sql, params![owner, scheduler]).map(|count| count > 0)
        })
    }

    /// True if a user has accepted a scheduler.
    ///
    /// # Errors
    /// Those of reading.
    pub fn has_accepted(&self, owner: u32, scheduler: u32) -> Result<bool, Error> {
        Ok(!self.accepted(Some(owner), Some(scheduler))?.is_empty())
    }

    /// The schedulers that users accepted: of one user or all, of one scheduler or all.
    ///
    /// # Errors
    /// Those of reading.
    pub fn accepted(&self, owner: Option<u32>, scheduler: Option<u32>) -> Result<Vec<AcceptedScheduler>, Error> {
        let sql = "SELECT owner, scheduler, since_unix_s FROM accepted_schedulers WHERE (?1 IS NULL OR owner = ?1) \
                   AND (?2 IS NULL OR scheduler = ?2) ORDER BY owner, scheduler";
        let read = |row: &Row<'_>| {
            Ok(AcceptedScheduler { owner: row.get(0)?, scheduler: row.get(1)?, since_unix_s: row.get(2)? })
        };
        self.rows("listing accepted schedulers", sql, params![owner, scheduler], read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_accepted_until_they_do_and_when_they_withdraw() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Store::open_site(Some(&folder.path().join("site.db"))).expect("a store");
        let accepted = |owner, scheduler, since_unix_s| AcceptedScheduler { owner, scheduler, since_unix_s };
        assert!(!store.has_accepted(7, 990).expect("read"));
        store.accept(accepted(7, 990, 1.0)).expect("it is kept");
        store.accept(accepted(7, 990, 2.0)).expect("again");
        store.accept(accepted(8, 991, 3.0)).expect("another");
        let held = |owner, scheduler| store.has_accepted(owner, scheduler).expect("read");
        assert_eq!([held(7, 990), held(8, 990), held(7, 991), held(8, 991)], [true, false, false, true]);
        assert_eq!(store.accepted(None, None).expect("all"), [accepted(7, 990, 1.0), accepted(8, 991, 3.0)]);
        assert_eq!(store.accepted(None, Some(991)).expect("one's"), [accepted(8, 991, 3.0)]);
        assert_eq!(store.accepted(Some(9), None).expect("none"), []);
        assert!(store.withdraw(7, 990).expect("it is gone") && !store.withdraw(7, 990).expect("it was gone"));
        assert!(!store.has_accepted(7, 990).expect("read"));
    }
}
