CREATE TABLE out (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE late (id BIGINT, v ROW<a INT, b STRING>, at TIMESTAMP(3) NOT NULL, p INT) WITH ('connector' = 'print');
CREATE TABLE t (id BIGINT, v ROW<a INT, b STRING>, at TIMESTAMP(3), p INT METADATA FROM 'partition' VIRTUAL, d AS id * 2, WATERMARK FOR at AS at)
WITH ('connector' = 'kafka', 'topic' = 't', 'scan.watermark.lateness' = 'partition', 'scan.watermark.late-table' = 'late');
INSERT INTO out SELECT id FROM t;
