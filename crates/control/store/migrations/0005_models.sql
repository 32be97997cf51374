-- Models of routines by the sizes of their data, one for each kind of host, and what they forecast.

CREATE TABLE models (
    number                  INTEGER PRIMARY KEY AUTOINCREMENT,
    name                    TEXT NOT NULL,
    -- Processor, cores, clock and memory: hosts that are alike share models.
    host_kind               TEXT NOT NULL,
    -- The words that were run, with their placeholders.
    command                 TEXT NOT NULL CHECK (json_valid(command)),
    made_unix_s             REAL NOT NULL,
    -- Terms, range, errors and measurements.
    content                 TEXT NOT NULL CHECK (json_valid(content)),
    UNIQUE (name, host_kind)
) STRICT;

-- Hosts on which models were made.
CREATE TABLE hosts (
    name                    TEXT PRIMARY KEY,
    kind                    TEXT NOT NULL,
    -- How fast it is, measured by the same work on each host.
    speed                   TEXT NOT NULL CHECK (json_valid(speed)),
    seen_unix_s             REAL NOT NULL
) STRICT;

CREATE TABLE size_forecasts (
    number                  INTEGER PRIMARY KEY AUTOINCREMENT,
    model                   TEXT NOT NULL,
    host                    TEXT NOT NULL,
    -- "seconds" or "bytes".
    unit                    TEXT NOT NULL,
    -- Sizes by parameter.
    sizes                   TEXT NOT NULL CHECK (json_valid(sizes)),
    made_unix_s             REAL NOT NULL,
    value                   REAL NOT NULL,
    lower                   REAL NOT NULL,
    upper                   REAL NOT NULL,
    -- True if a size is outside of what was measured.
    outside                 INTEGER NOT NULL,
    -- NULL: not known.
    came                    REAL
) STRICT;
