CREATE TABLE out (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE t (id BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'kafka', 'topic' = 't', 'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min', 'scan.watermark.alignment.update-interval' = '0 s');
INSERT INTO out SELECT id FROM t;
