-- The first shape of the store: jobs, their processes and markers, and their measured windows.
--
-- A file here is applied once, in one transaction, and never changed after it has been released: the next change is
-- the next number. What a window measured is in `windows.report` (JSON, described in docs/report.md); the columns beside
-- it repeat what lists and searches need.

CREATE TABLE jobs (
    -- Counts jobs over the life of the store; AUTOINCREMENT so that a deleted job's number never returns.
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    -- What people type: first letters of the program and the number, e.g. 'particle-3'.
    id              TEXT NOT NULL UNIQUE COLLATE NOCASE,
    -- What makes two sightings the same job; made by the caller.
    key             TEXT NOT NULL UNIQUE,
    program         TEXT NOT NULL,
    arguments       TEXT NOT NULL CHECK (json_valid(arguments)),
    ranks           INTEGER NOT NULL CHECK (ranks >= 0),
    mpi             TEXT NOT NULL,
    hosts           TEXT NOT NULL CHECK (json_valid(hosts)),
    builds          TEXT NOT NULL CHECK (json_valid(builds)),
    started_unix_s  REAL NOT NULL
) STRICT;

-- Where the ranks of a job were last seen.
CREATE TABLE processes (
    job             INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    rank            INTEGER NOT NULL CHECK (rank >= 0),
    pid             INTEGER NOT NULL,
    host            TEXT NOT NULL,
    -- Start of the process in clock ticks since its host's boot: with the pid, a process for certain.
    start_ticks     INTEGER NOT NULL,
    PRIMARY KEY (job, rank)
) STRICT, WITHOUT ROWID;

-- What counted the iterations of a job last time.
CREATE TABLE markers (
    job             INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE,
    function        TEXT NOT NULL,
    -- The call site: a module's path and an address in its file; both or neither.
    site_module     TEXT,
    site_address    INTEGER,
    source          TEXT NOT NULL,
    CHECK ((site_module IS NULL) = (site_address IS NULL))
) STRICT;

CREATE TABLE windows (
    -- Counts windows over the life of the store: the largest is the newest, whatever the clock says.
    number                  INTEGER PRIMARY KEY AUTOINCREMENT,
    job                     INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    batch                   INTEGER NOT NULL CHECK (batch >= 0),
    triggered_by            TEXT NOT NULL,
    started_unix_s          REAL NOT NULL,
    valid                   INTEGER NOT NULL CHECK (valid IN (0, 1)),
    ended_by                TEXT NOT NULL,
    marker                  TEXT,
    iterations              INTEGER,
    communication_fraction  REAL,
    time_per_iteration_s    REAL,
    report                  TEXT NOT NULL CHECK (json_valid(report)),
    UNIQUE (job, batch)
) STRICT;
