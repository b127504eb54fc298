CREATE TABLE t WITH ('connector' = 'print');
