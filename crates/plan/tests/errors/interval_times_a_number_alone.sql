CREATE TABLE t (id INT, s STRING, ts TIMESTAMP(3)) WITH ('connector' = 'kafka', 'topic' = 't'); CREATE TABLE out (s STRING) WITH ('connector' = 'print');
INSERT INTO out SELECT CAST(INTERVAL '1' DAY * id AS STRING) FROM t;
