CREATE TABLE t (a STRING, ts TIMESTAMP_LTZ(3) METADATA FROM 'time' VIRTUAL) WITH ('connector' = 'kafka', 'topic' = 't');
