CREATE TABLE t (a STRING, place BIGINT METADATA FROM 'offset') WITH ('connector' = 'kafka', 'topic' = 't');
INSERT INTO t SELECT 'a', 1;
