CREATE TABLE t (a STRNG) WITH ('connector' = 'print');
