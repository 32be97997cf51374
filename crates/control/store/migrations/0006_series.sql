-- Measurements of hosts again and again, with retention: each figure of a host, or between two, is a series.

CREATE TABLE series (
    number      INTEGER PRIMARY KEY,
    host        TEXT NOT NULL,
    -- The other host of what is between two; empty: none.
    peer        TEXT NOT NULL,
    figure      TEXT NOT NULL,
    UNIQUE (host, peer, figure)
) STRICT;

CREATE TABLE series_values (
    series      INTEGER NOT NULL REFERENCES series (number) ON DELETE CASCADE,
    at_unix_s   REAL NOT NULL,
    value       REAL NOT NULL,
    PRIMARY KEY (series, at_unix_s)
) STRICT, WITHOUT ROWID;
