CREATE TABLE t (s STRING) WITH ('connector' = 'kafka', 'topic' = 't'); CREATE TABLE out (s BOOLEAN) WITH ('connector' = 'print');
INSERT INTO out SELECT s RLIKE 'a' FROM t;
