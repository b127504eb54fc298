CREATE TABLE results (a STRING) WITH ('connector' = 'print');
INSERT INTO results
SELECT a FROM resultz;
