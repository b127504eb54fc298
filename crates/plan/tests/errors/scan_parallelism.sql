CREATE TABLE t (id BIGINT) WITH ('connector' = 'stream', 'scan.parallelism' = '100000');
