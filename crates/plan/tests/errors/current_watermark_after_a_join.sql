CREATE TABLE out (id BIGINT, w TIMESTAMP(3)) WITH ('connector' = 'print');
CREATE TABLE t (id BIGINT, at TIMESTAMP(3), other TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'kafka', 'topic' = 't');
INSERT INTO out SELECT a.id, CURRENT_WATERMARK(a.at) FROM t AS a JOIN t AS b ON a.id = b.id;
