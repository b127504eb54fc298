CREATE TABLE t (a STRING) WITH ('connector' = 'stream);
