CREATE TABLE t (a STRING, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH ('connector' = 'kafka', 'topic' = 't');
INSERT INTO t SELECT 'a', CAST('2024-01-01 00:00:00' AS TIMESTAMP_LTZ(3));
