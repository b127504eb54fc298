CREATE TABLE out (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE late (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE t (id BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'scan.watermark.lateness' = 'partition', 'scan.watermark.late-table' = 'late');
INSERT INTO out SELECT id FROM t;
