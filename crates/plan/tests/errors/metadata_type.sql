CREATE TABLE t (a STRING, ts STRING METADATA FROM 'timestamp' VIRTUAL) WITH ('connector' = 'kafka', 'topic' = 't');
