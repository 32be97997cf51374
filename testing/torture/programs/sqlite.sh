exec sqlite3 -batch work.db < work.sql
