CREATE TABLE out (id BIGINT, w TIMESTAMP(3)) WITH ('connector' = 'print');
CREATE TABLE t (id BIGINT, at TIMESTAMP(3), other TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'kafka', 'topic' = 't');
INSERT INTO out SELECT id, CURRENT_WATERMARK(at + INTERVAL '1' SECOND) FROM t;
