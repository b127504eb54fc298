CREATE TABLE t (line STRING) WITH ('connector' = 'stream');
CREATE TABLE results (part STRING) WITH ('connector' = 'print');
INSERT INTO results SELECT SPLIT_INDEX(line, ',', -1) FROM t;
