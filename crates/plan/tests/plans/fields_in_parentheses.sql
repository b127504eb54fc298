CREATE TABLE t (id INT, r ROW<a INT, b ROW<c STRING>>, rows ARRAY<ROW<x INT>>) WITH ('connector' = 'kafka', 'topic' = 't');
CREATE TABLE out (a INT, c STRING, x INT, y INT) WITH ('connector' = 'print');
INSERT INTO out SELECT (r).a, (r).b.c, (rows[1]).x, ((rows)[2]).x FROM t;
