CREATE TABLE t (id INT, s STRING, ts TIMESTAMP(3)) WITH ('connector' = 'kafka', 'topic' = 't'); CREATE TABLE out (s STRING) WITH ('connector' = 'print');
INSERT INTO out SELECT COALESCE(s, ts) FROM t;
