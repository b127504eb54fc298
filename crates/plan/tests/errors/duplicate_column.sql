CREATE TABLE t (a STRING, b INT,
 a INT) WITH ('connector' = 'print');
