CREATE TABLE out (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE t (id BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'kafka', 'topic' = 't', 'scan.idle-timeout' = '1 s', 'scan.watermark.idle-timeout' = '2 s');
INSERT INTO out SELECT id FROM t;
