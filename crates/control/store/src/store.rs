//! The open store: one SQLite connection and every question asked of it.
//!
//! Each write takes the lock at its beginning (`IMMEDIATE`), so that two trimtab processes wait for each other instead of
//! failing in the middle, and is durable when the call returns (`synchronous = FULL`).
//!
//! Next: `schema.rs` for the tables, `rows.rs` for what comes back.

use crate::error::BUSY_TIMEOUT_MS;
use crate::history::Run;
use crate::obstacle::directory_of;
use crate::rows::{self, JOB_COLUMNS, RawJob, WINDOW_COLUMNS};
use crate::runs::write_run;
use crate::{Error, JobId, JobSummary, Process, Selection, WindowSummary, find, location, schema};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row, Transaction, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_types::report::{Job, Report};

/// Tries to switch the journal mode, which SQLite refuses at once while another process opens the same new file.
const JOURNAL_ATTEMPTS: u32 = 50;

/// Pause between these tries.
const JOURNAL_RETRY_MS: u64 = 20;

/// Jobs named in an error about an ambiguous name, at most.
const CANDIDATES_MAX: usize = 8;

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the store at `path`, or at [`crate::default_path`], making it or bringing it up to date as needed.
    ///
    /// # Errors
    /// Any that concern the file: missing directory, no permission, not ours, damaged, newer, read-only, full, busy.
    pub fn open(path: Option<&Path>) -> Result<Store, Error> {
        Store::open_or(path, location::default_path)
    }

    /// As [`Store::open`], of a site's controller: at `path`, or at [`crate::default_site_path`].
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_site(path: Option<&Path>) -> Result<Store, Error> {
        Store::open_or(path, location::default_site_path)
    }

    fn open_or(path: Option<&Path>, default: fn() -> Result<PathBuf, Error>) -> Result<Store, Error> {
        let path = match path {
            Some(path) => path.to_path_buf(),
            None => {
                let path = default()?;
                location::create_directory(directory_of(&path))?;
                path
            }
        };
        let directory = directory_of(&path);
        if !directory.is_dir() {
            return Err(Error::NoDirectory { directory: directory.to_path_buf() });
        }
        location::touch_private(&path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut store = Store::connect(path, flags)?;
        store.prepare_to_write()?;
        Ok(store)
    }

    /// Opens an existing store for reading: nothing is created or changed, and a read-only file system will do.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, [`Error::Older`] if it needs a migration, and those of [`Store::open`].
    pub fn open_to_read(path: Option<&Path>) -> Result<Store, Error> {
        let path = path.map(Path::to_path_buf).map_or_else(location::default_path, Ok)?;
        // A folder that may not be looked into is another matter: opening says so.
        if matches!(path.try_exists(), Ok(false)) {
            return Err(Error::Missing { path });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let readable = |store: Store| schema::check(&store.connection, &store.path).map(|()| store);
        match Store::connect(path.clone(), flags).and_then(readable) {
            Err(Error::Unreadable { .. } | Error::ReadOnly { .. }) if is_quiet(&path) => {
                let address = immutable_address(&path);
                Store::connect_as(path, Path::new(&address), flags | OpenFlags::SQLITE_OPEN_URI).and_then(readable)
            }
            result => result,
        }
    }

    /// As [`Store::open_to_read`], but a store of an older version is brought up to date first.
    ///
    /// # Errors
    /// As those two.
    pub fn open_to_show(path: Option<&Path>) -> Result<Store, Error> {
        match Store::open_to_read(path) {
            Err(Error::Older { .. }) => Store::open(path),
            result => result,
        }
    }

    /// The store's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finds the job with this key, or adds it under a new short name; either way its description is now `job`.
    ///
    /// `key` says when two sightings are the same job, e.g. host, pid and start ticks of rank 0. `job.id` is not used.
    ///
    /// # Errors
    /// Those of writing: [`Error::Busy`], [`Error::DiskFull`], [`Error::ReadOnly`], ...
    pub fn upsert_job(&mut self, job: &Job, key: &str) -> Result<JobId, Error> {
        self.write("writing a job", |transaction| {
            let (number, id) = name_job(transaction, job, key)?;
            write_job(transaction, number, &id, job, key)?;
            Ok(JobId(id))
        })
    }

    /// All jobs, the one whose window was stored last first; jobs without windows last.
    ///
    /// # Errors
    /// Those of reading: [`Error::Corrupt`], [`Error::UnreadableEntry`], ...
    pub fn list_jobs(&self) -> Result<Vec<JobSummary>, Error> {
        let newest_first = "TRUE ORDER BY (SELECT max(windows.number) FROM windows WHERE windows.job = jobs.number) \
                            DESC NULLS LAST, jobs.number DESC";
        self.jobs_where(newest_first, [])
    }

    /// The job of this id.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], and those of reading.
    pub fn job(&self, id: &JobId) -> Result<JobSummary, Error> {
        self.jobs_where("jobs.id = ?1", [id.as_str()])?.pop().ok_or_else(|| self.no_such_job(id.as_str()))
    }

    /// The job with this key; see [`Store::upsert_job`].
    ///
    /// # Errors
    /// Those of reading.
    pub fn job_of_key(&self, key: &str) -> Result<Option<JobId>, Error> {
        let found = self.rows("looking for a job", "SELECT id FROM jobs WHERE key = ?1", [key], |row| row.get(0))?;
        Ok(found.into_iter().next().map(JobId))
    }

    /// The windows of a job, oldest first.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], and those of reading.
    pub fn windows(&self, id: &JobId) -> Result<Vec<WindowSummary>, Error> {
        let number = self.number_of(id)?;
        let sql = format!("SELECT {WINDOW_COLUMNS} FROM windows WHERE job = ?1 ORDER BY batch");
        self.rows("listing windows", &sql, [number], rows::read_window)
    }

    /// The whole report of one window.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], [`Error::NoSuchWindow`], and those of reading.
    pub fn window(&self, id: &JobId, window: u32) -> Result<Report, Error> {
        let number = self.number_of(id)?;
        let sql = "SELECT report FROM windows WHERE job = ?1 AND batch = ?2";
        match self.rows("reading a window", sql, params![number, window], |row| row.get::<_, String>(0))?.pop() {
            Some(text) => self.parse_report(&text, id.as_str(), window),
            None => Err(self.no_such_window(id, window)?),
        }
    }

    /// The report stored last, of one job or of all; `None`: there is none.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], and those of reading.
    pub fn newest_window(&self, id: Option<&JobId>) -> Result<Option<Report>, Error> {
        let number = id.map(|id| self.number_of(id)).transpose()?;
        let sql = "SELECT jobs.id, batch, report FROM windows JOIN jobs ON jobs.number = windows.job \
                   WHERE ?1 IS NULL OR windows.job = ?1 ORDER BY windows.number DESC LIMIT 1";
        let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get::<_, String>(2)?));
        let newest = self.rows("reading the newest window", sql, [number], read)?.pop();
        newest.map(|(job, window, text)| self.parse_report(&text, &job, window)).transpose()
    }

    /// The job and window that "JOB" or "JOB/WINDOW" stands for; JOB is an id, a job's number, or a beginning that
    /// fits one id only.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], [`Error::Ambiguous`], [`Error::BadWindow`], [`Error::NoSuchWindow`], those of reading.
    pub fn find(&self, text: &str) -> Result<Selection, Error> {
        let (name, window) = find::split(text)?;
        let job = self.find_job(name)?;
        if let Some(window) = window {
            let present = self.windows(&job.id)?.iter().any(|known| known.number == window);
            if !present {
                return Err(self.no_such_window(&job.id, window)?);
            }
        }
        Ok(Selection { job, window })
    }

    /// The number the job's next window will get, unless another trimtab stores one first.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], and those of reading.
    pub fn next_window(&self, id: &JobId) -> Result<u32, Error> {
        let number = self.number_of(id)?;
        free_number(&self.connection, number).map_err(|source| self.error("counting windows", source))
    }

    /// Stores a window, all of it or nothing, brings its run up to date, and returns its number.
    ///
    /// That is `report.window.number`, or the next free one if this is taken (another trimtab measured the same job
    /// meanwhile). The stored report says the job id and number under which it is found again.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], [`Error::UnstorableReport`], and those of writing.
    pub fn insert_window(&mut self, id: &JobId, report: &Report) -> Result<u32, Error> {
        let number = self.number_of(id)?;
        let mut stored = report.clone();
        stored.job.id = id.to_string();
        loop {
            // The text is made outside the lock; only a lost race makes it twice.
            let text = rows::report_text(&stored)?;
            let taken =
                self.write("writing a window", |transaction| add_window(transaction, number, &stored, &text))?;
            match taken {
                None => return Ok(stored.window.number),
                Some(free) => stored.window.number = free,
            }
        }
    }

    /// Replaces what is known of the job's processes.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], and those of writing.
    pub fn set_processes(&mut self, id: &JobId, processes: &[Process]) -> Result<(), Error> {
        let number = self.number_of(id)?;
        self.write("writing processes", |transaction| {
            transaction.execute("DELETE FROM processes WHERE job = ?1", [number])?;
            let sql =
                "INSERT OR REPLACE INTO processes (job, rank, pid, host, start_ticks) VALUES (?1, ?2, ?3, ?4, ?5)";
            let mut insert = transaction.prepare_cached(sql)?;
            for process in processes {
                let ticks = process.start_ticks.cast_signed();
                insert.execute(params![number, process.rank.0, process.pid.0, process.host, ticks])?;
            }
            Ok(())
        })
    }

    /// Where the job's ranks were last seen, in rank order; empty: not known.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], and those of reading.
    pub fn processes(&self, id: &JobId) -> Result<Vec<Process>, Error> {
        let number = self.number_of(id)?;
        let sql = "SELECT rank, pid, host, start_ticks FROM processes WHERE job = ?1 ORDER BY rank";
        self.rows("reading processes", sql, [number], rows::read_process)
    }

    /// Forgets a job with its windows, processes and run; its number is not given again.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], and those of writing.
    pub fn delete_job(&mut self, id: &JobId) -> Result<(), Error> {
        let number = self.number_of(id)?;
        self.write("deleting a job", |transaction| {
            let run = "DELETE FROM runs WHERE key = (SELECT key FROM jobs WHERE number = ?1)";
            transaction.execute(run, [number])?;
            transaction.execute("DELETE FROM jobs WHERE number = ?1", [number]).map(|_| ())
        })
    }

    /// Gives the space of deleted jobs back to the file system; needs as much free space as the store has content.
    ///
    /// # Errors
    /// Those of writing.
    pub fn vacuum(&mut self) -> Result<(), Error> {
        let result = self.connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);");
        result.map_err(|source| self.error("vacuuming", source))
    }
}

impl Store {
    fn connect(path: PathBuf, flags: OpenFlags) -> Result<Store, Error> {
        let address = path.clone();
        Store::connect_as(path, &address, flags)
    }

    /// Opens `address`, which is `path` or a URI for it.
    fn connect_as(path: PathBuf, address: &Path, flags: OpenFlags) -> Result<Store, Error> {
        let opened = Connection::open_with_flags(address, flags).and_then(|connection| {
            connection.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
            connection.pragma_update(None, "foreign_keys", true)?;
            Ok(connection)
        });
        match opened {
            Ok(connection) => Ok(Store { connection, path }),
            Err(source) => Err(Error::of_sqlite(&path, "opening it", source)),
        }
    }

    /// Refuses a file that is not ours before changing anything in it, then sets its journal and schema.
    fn prepare_to_write(&mut self) -> Result<(), Error> {
        if self.connection.is_readonly("main").unwrap_or(false) {
            return Err(Error::ReadOnly { path: self.path.clone(), source: None });
        }
        match schema::check(&self.connection, &self.path) {
            Ok(()) | Err(Error::Older { .. }) => {}
            Err(error) => return Err(error),
        }
        self.set_journal()?;
        schema::migrate(&mut self.connection, &self.path)
    }

    fn set_journal(&self) -> Result<(), Error> {
        let wanted = location::journal_mode(directory_of(&self.path));
        for attempt in 1.. {
            match self.try_journal(wanted).map_err(|source| self.error("setting its journal", source)) {
                Err(Error::Busy { .. }) if attempt < JOURNAL_ATTEMPTS => {
                    std::thread::sleep(Duration::from_millis(JOURNAL_RETRY_MS));
                }
                result => return result,
            }
        }
        Ok(())
    }

    fn try_journal(&self, wanted: &str) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "synchronous", "full")?;
        let present: String = self.connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        if present != wanted {
            // SQLite answers with the mode it could set; both are safe, so what it says is good enough.
            self.connection.pragma_update_and_check(None, "journal_mode", wanted, |_| Ok(()))?;
        }
        Ok(())
    }

    pub(crate) fn write<T>(
        &mut self,
        doing: &'static str,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let result =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|transaction| {
                let value = act(&transaction)?;
                transaction.commit()?;
                Ok(value)
            });
        result.map_err(|source| self.error(doing, source))
    }

    pub(crate) fn rows<T>(
        &self,
        doing: &'static str,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let all = || self.connection.prepare_cached(sql)?.query_map(params, read)?.collect();
        let result: rusqlite::Result<Vec<T>> = all();
        result.map_err(|source| self.error(doing, source))
    }

    pub(crate) fn jobs_where(&self, condition: &str, params: impl Params) -> Result<Vec<JobSummary>, Error> {
        // One read transaction: the jobs and their windows are of the same moment.
        let snapshot = self.connection.unchecked_transaction().map_err(|source| self.error("reading jobs", source))?;
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE {condition}");
        let jobs = self.rows("reading jobs", &sql, params, RawJob::read)?;
        let summaries = jobs.into_iter().map(|raw| self.summarise(raw)).collect();
        drop(snapshot);
        summaries
    }

    fn summarise(&self, raw: RawJob) -> Result<JobSummary, Error> {
        let number = raw.number;
        let mut summary = raw.into_summary(&self.path)?;
        let count = "SELECT count(*) FROM windows WHERE job = ?1";
        summary.windows = self.rows("counting windows", count, [number], |row| row.get(0))?.pop().unwrap_or(0);
        let newest = format!("SELECT {WINDOW_COLUMNS} FROM windows WHERE job = ?1 ORDER BY number DESC LIMIT 1");
        summary.newest = self.rows("reading the newest window", &newest, [number], rows::read_window)?.pop();
        Ok(summary)
    }

    fn find_job(&self, name: &str) -> Result<JobSummary, Error> {
        let exact = self.jobs_where("jobs.id = ?1 OR jobs.number = ?2", params![name, name.parse::<i64>().ok()])?;
        if let Some(job) = exact.into_iter().next() {
            return Ok(job);
        }
        if name.is_empty() || find::is_whole_id(name) {
            return Err(self.no_such_job(name));
        }
        let begins = "substr(jobs.id, 1, length(?1)) = ?1 COLLATE NOCASE ORDER BY jobs.number DESC";
        let mut candidates = self.jobs_where(begins, [name])?;
        match candidates.len() {
            1 => Ok(candidates.remove(0)),
            0 => Err(self.no_such_job(name)),
            _ => Err(ambiguous(name, &candidates)),
        }
    }

    fn number_of(&self, id: &JobId) -> Result<i64, Error> {
        let sql = "SELECT number FROM jobs WHERE id = ?1";
        let number = self.rows("finding a job", sql, [id.as_str()], |row| row.get(0))?.pop();
        number.ok_or_else(|| self.no_such_job(id.as_str()))
    }

    fn parse_report(&self, text: &str, job: &str, window: u32) -> Result<Report, Error> {
        serde_json::from_str(text).map_err(|source| {
            let what = format!("window {window} of job {job}");
            Error::UnreadableEntry { path: self.path.clone(), what, source }
        })
    }

    fn no_such_job(&self, text: &str) -> Error {
        Error::NoSuchJob { path: self.path.clone(), text: text.to_string() }
    }

    fn no_such_window(&self, id: &JobId, window: u32) -> Result<Error, Error> {
        let present = self.windows(id)?.iter().map(|window| window.number).collect();
        Ok(Error::NoSuchWindow { job: id.to_string(), window, present })
    }

    fn error(&self, doing: &'static str, source: rusqlite::Error) -> Error {
        Error::of_sqlite(&self.path, doing, source)
    }
}

/// The number and name of the job with this key, known or new; the lock is held, so a new number stays free.
pub(crate) fn name_job(transaction: &Transaction<'_>, job: &Job, key: &str) -> rusqlite::Result<(i64, String)> {
    let known = "SELECT number, id FROM jobs WHERE key = ?1";
    let known = transaction.query_row(known, [key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    let last = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'jobs'), 0)";
    let number = transaction.query_row(last, [], |row| row.get::<_, i64>(0))? + 1;
    Ok((number, find::id_of(&job.program, number)))
}

pub(crate) fn write_job(
    transaction: &Transaction<'_>,
    number: i64,
    id: &str,
    job: &Job,
    key: &str,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO jobs (number, id, key, program, arguments, ranks, mpi, hosts, builds, started_unix_s) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
               ON CONFLICT (number) DO UPDATE SET program = ?4, arguments = ?5, ranks = ?6, mpi = ?7, hosts = ?8, \
               builds = ?9, started_unix_s = ?10";
    let [arguments, hosts, builds] = [&job.arguments, &job.hosts, &job.builds].map(|list| rows::list_text(list));
    let (program, ranks, mpi) = (&job.program, job.ranks, &job.mpi);
    let started = rows::moment_to_store(job.started_unix_s);
    let values = params![number, id, key, program, arguments, ranks, mpi, hosts, builds, started];
    transaction.execute(sql, values).map(|_| ())
}

/// Adds the window, or returns the next free number if its own is taken.
fn add_window(
    transaction: &Transaction<'_>,
    number: i64,
    report: &Report,
    text: &str,
) -> rusqlite::Result<Option<u32>> {
    let window = &report.window;
    let taken = "SELECT count(*) FROM windows WHERE job = ?1 AND batch = ?2";
    if transaction.query_row(taken, params![number, window.number], |row| row.get::<_, i64>(0))? > 0 {
        return free_number(transaction, number).map(Some);
    }
    let sql = "INSERT INTO windows (job, batch, triggered_by, started_unix_s, valid, ended_by, marker, iterations, \
               communication_fraction, time_per_iteration_s, report, event_kind, event_value, event_unix_s) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    let event = window.event.as_ref();
    let values = params![
        number,
        window.number,
        window.trigger,
        rows::moment_to_store(window.started_unix_s),
        window.valid,
        window.ended_by.word(),
        window.marker,
        window.iterations.map(u64::cast_signed),
        report.communication_fraction.map(|estimate| estimate.mean),
        report.time_per_iteration_s.map(|estimate| estimate.mean),
        text,
        event.map(|event| event.kind.word()),
        event.map(|event| &event.value),
        event.map(|event| event.at_unix_s),
    ];
    transaction.execute(sql, values)?;
    update_run(transaction, number, report)?;
    Ok(None)
}

/// The run of a job as its newest window shows it.
fn update_run(transaction: &Transaction<'_>, number: i64, report: &Report) -> rusqlite::Result<()> {
    let sql = "SELECT key, owner FROM jobs WHERE number = ?1";
    let (key, owner): (String, Option<u32>) =
        transaction.query_row(sql, [number], |row| Ok((row.get(0)?, row.get(1)?)))?;
    write_run(transaction, &Run::of_window(&key, owner, report))
}

fn free_number(connection: &Connection, number: i64) -> rusqlite::Result<u32> {
    let sql = "SELECT coalesce(max(batch) + 1, 0) FROM windows WHERE job = ?1";
    connection.query_row(sql, [number], |row| row.get(0))
}

fn ambiguous(text: &str, candidates: &[JobSummary]) -> Error {
    let candidates = candidates.iter().take(CANDIDATES_MAX).map(|job| job.id.to_string()).collect();
    Error::Ambiguous { text: text.to_string(), candidates }
}

/// True if no writer has left anything beside the file: it can be read alone.
fn is_quiet(path: &Path) -> bool {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_os_string();
        name.push(suffix);
        std::fs::metadata(name).map_or(0, |facts| facts.len())
    };
    beside("-wal") == 0 && beside("-journal") == 0
}

/// The URI that lets SQLite read a file it cannot lock; only for a quiet one.
fn immutable_address(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut address = String::from("file://");
    for byte in absolute.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => address.push(char::from(*byte)),
            other => address.push_str(&format!("%{other:02X}")),
        }
    }
    address + "?immutable=1"
}

#[cfg(test)]
mod tests;
