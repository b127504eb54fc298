CREATE TABLE t (a STRING, b BIGINT METADATA) WITH ('connector' = 'stream');
