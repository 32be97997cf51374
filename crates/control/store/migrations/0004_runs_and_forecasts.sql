-- Runs, which outlive the reports of their windows, and forecasts of their ends. A report says by itself what counted its
-- iterations: nobody read `markers`.

DROP TABLE markers;

CREATE TABLE runs (
    number                  INTEGER PRIMARY KEY AUTOINCREMENT,
    -- As in `jobs`, whose row may be gone.
    key                     TEXT NOT NULL UNIQUE,
    job                     TEXT NOT NULL,
    owner                   INTEGER,
    program                 TEXT NOT NULL,
    -- Build id of the program; NULL: it has none.
    build                   TEXT,
    -- SHA-256, so that equal ones are known without being readable.
    arguments_hash          TEXT NOT NULL,
    ranks                   INTEGER NOT NULL CHECK (ranks >= 0),
    hosts                   TEXT NOT NULL CHECK (json_valid(hosts)),
    -- Others on the same nodes in any window.
    companions              TEXT NOT NULL CHECK (json_valid(companions)),
    -- Of its main loop, as the newest window knew it; NULL: it did not.
    iterations_done         INTEGER,
    iterations_total        INTEGER,
    iterations_at_most      INTEGER,
    -- NULL: not known.
    started_unix_s          REAL,
    -- When it was last seen to run; NULL: by no window that knows its time.
    seen_unix_s             REAL,
    -- It ended between these; both or neither.
    ended_after_unix_s      REAL,
    ended_before_unix_s     REAL CHECK (ended_before_unix_s >= ended_after_unix_s),
    CHECK ((ended_after_unix_s IS NULL) = (ended_before_unix_s IS NULL))
) STRICT;

CREATE INDEX runs_alike ON runs (build, arguments_hash, ranks);
CREATE INDEX runs_open ON runs (ended_before_unix_s) WHERE ended_before_unix_s IS NULL;

-- Ends of runs as they were forecast; what came is in `runs`.
CREATE TABLE forecasts (
    number                  INTEGER PRIMARY KEY AUTOINCREMENT,
    run                     INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    made_unix_s             REAL NOT NULL,
    method                  TEXT NOT NULL,
    elapsed_s               REAL NOT NULL,
    iterations_done         INTEGER,
    iterations_remaining    INTEGER,
    -- The expected end, or that of a loop that goes through all passes it may; NULL: neither was said.
    end_unix_s              REAL,
    lower_unix_s            REAL NOT NULL,
    upper_unix_s            REAL NOT NULL,
    late_unix_s             REAL NOT NULL,
    -- How it was derived: sentences.
    because                 TEXT NOT NULL CHECK (json_valid(because))
) STRICT;

CREATE INDEX forecasts_of_run ON forecasts (run);
