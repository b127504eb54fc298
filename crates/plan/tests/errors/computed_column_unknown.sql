CREATE TABLE t (a STRING,
 b AS UPPER(aa)) WITH ('connector' = 'stream');
