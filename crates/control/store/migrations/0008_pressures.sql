-- Answers of programs to pressure on resources, and of hosts' probes to each other.

CREATE TABLE pressures (
    number                  INTEGER PRIMARY KEY AUTOINCREMENT,
    host                    TEXT NOT NULL,
    -- Build id of the program, SHA-256 of its arguments, ranks; empty and 0: the host's own probes.
    build                   TEXT NOT NULL,
    arguments_hash          TEXT NOT NULL,
    ranks                   INTEGER NOT NULL CHECK (ranks >= 0),
    -- Path of the executable; empty with the host's own.
    program                 TEXT NOT NULL,
    made_unix_s             REAL NOT NULL,
    -- Curves and levels.
    content                 TEXT NOT NULL CHECK (json_valid(content)),
    UNIQUE (host, build, arguments_hash, ranks)
) STRICT;
