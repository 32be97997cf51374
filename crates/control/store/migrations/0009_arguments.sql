-- Users of a site whose programs' arguments are kept as they are; those of all others are kept as hashes.

CREATE TABLE arguments_kept (
    owner   INTEGER PRIMARY KEY
) STRICT;
