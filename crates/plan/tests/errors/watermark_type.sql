CREATE TABLE t (event_time BIGINT, WATERMARK FOR event_time AS event_time - INTERVAL '5' SECOND) WITH ('connector' = 'stream');
