-- Joins by the same keys are carried out at once. Those by other keys, in time, or whose outer side has a further condition, are not.
CREATE TABLE a (k BIGINT, x INT, v STRING) WITH ('connector' = 'stream');
CREATE TABLE b (k BIGINT, x INT, v STRING) WITH ('connector' = 'stream');
CREATE TABLE c (k BIGINT, x INT, v STRING) WITH ('connector' = 'stream');
CREATE TABLE s (k BIGINT, x INT, v STRING) WITH ('connector' = 'stream');
CREATE TABLE t (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE out (k BIGINT, a STRING, b STRING, c STRING) WITH ('connector' = 'print');
INSERT INTO out SELECT a.k, a.v, b.v, c.v FROM a JOIN b ON a.k = b.k JOIN c ON b.k = c.k AND a.x < c.x;
INSERT INTO out SELECT a.k, a.v, b.v, s.v FROM a JOIN b ON a.k = b.k LEFT JOIN c ON a.k = c.k JOIN s ON s.k = a.k WHERE c.v IS NULL OR c.v < s.v;
INSERT INTO out SELECT /*+ STATE_TTL('b' = '1 h', 'c' = '2 h') */ a.k, a.v, b.v, c.v FROM a, b, c WHERE a.k = b.k AND a.k = c.k AND a.x / b.x > 3;
INSERT INTO out SELECT a.k, a.v, b.v, c.v FROM a JOIN b ON a.k = b.k JOIN c ON c.x = b.x;
INSERT INTO out SELECT a.k, a.v, b.v, c.v FROM a JOIN b ON a.k = b.k LEFT JOIN c ON c.k = b.k AND c.x > a.x;
INSERT INTO out SELECT a.k, a.v, b.v, '' FROM a JOIN b ON a.k = b.k JOIN t ON t.k = b.k;
INSERT INTO out SELECT a.k, a.v, '', '' FROM t JOIN t AS u ON t.k = u.k JOIN a ON a.k = t.k;
SET 'table.optimizer.multi-join.enabled' = 'false';
INSERT INTO out SELECT a.k, a.v, b.v, c.v FROM a JOIN b ON a.k = b.k JOIN c ON b.k = c.k AND a.x < c.x;
