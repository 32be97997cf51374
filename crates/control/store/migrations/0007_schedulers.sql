-- Which users of a site let which schedulers have their jobs measured; who is not here has accepted none.

CREATE TABLE accepted_schedulers (
    owner           INTEGER NOT NULL,
    scheduler       INTEGER NOT NULL,
    since_unix_s    REAL NOT NULL,
    PRIMARY KEY (owner, scheduler)
) STRICT, WITHOUT ROWID;
