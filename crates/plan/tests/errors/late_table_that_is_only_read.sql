CREATE TABLE out (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE late (id BIGINT) WITH ('connector' = 'stream');
CREATE TABLE t (id BIGINT, ts AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 't', 'scan.watermark.lateness' = 'partition', 'scan.watermark.late-table' = 'late');
INSERT INTO out SELECT id FROM t;
