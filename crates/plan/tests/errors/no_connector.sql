CREATE TABLE t (a STRING) WITH ('format' = 'json');
