PRAGMA journal_mode=WAL;
CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL);
CREATE INDEX ta ON t(a); CREATE INDEX tb ON t(b, c);
WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x < 120000)
INSERT INTO t SELECT x, (x*7919)%10007, printf('name-%05d', (x*31)%5003), x/7.0 FROM n;
SELECT count(*), sum(a), min(b), max(c) FROM t;
SELECT a%10, count(*), avg(c), group_concat(id%10, '') FROM t WHERE id < 400 GROUP BY 1;
SELECT count(*) FROM t x JOIN t y ON x.a = y.a AND x.id < y.id WHERE x.a < 400;
UPDATE t SET c = c*2, b = b||'!' WHERE a%3 = 0;
DELETE FROM t WHERE a%5 = 1;
SELECT count(*), total(c), count(DISTINCT b) FROM t;
CREATE VIRTUAL TABLE f USING fts5(words);
INSERT INTO f SELECT b||' '||a FROM t WHERE id%7 = 0;
SELECT count(*) FROM f WHERE f MATCH 'name';
SELECT sum(json_extract(json_object('a', a, 'l', json_array(id, a)), '$.l[1]')) FROM t;
SELECT b, row_number() OVER (PARTITION BY a%4 ORDER BY c DESC, id) r FROM t ORDER BY r, b LIMIT 12;
VACUUM; PRAGMA integrity_check;
SELECT sum(length(hex(randomblob(8)))) FROM t;
