-- Whose a job is, in a site's store, which keeps those of many users; NULL in a user's own.

ALTER TABLE jobs ADD COLUMN owner INTEGER;
CREATE INDEX jobs_of_owner ON jobs (owner);
