CREATE TABLE out (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE late (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE t (id BIGINT)
WITH ('connector' = 'kafka', 'topic' = 't', 'scan.watermark.lateness' = 'partition', 'scan.watermark.late-table' = 'late');
INSERT INTO out SELECT id FROM t;
