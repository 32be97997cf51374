-- What a window waited for: who asks which windows were measured because a job came need not read every report.
-- All three or none; NULL for windows that were measured at once, which all before this migration were.

ALTER TABLE windows ADD COLUMN event_kind TEXT;
ALTER TABLE windows ADD COLUMN event_value TEXT;
ALTER TABLE windows ADD COLUMN event_unix_s REAL;
