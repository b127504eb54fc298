CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (n BIGINT, b BOOLEAN) WITH ('connector' = 'print');
INSERT INTO out
SELECT id, EXISTS (SELECT 1 FROM clicks o WHERE o.page = c.page AND o.id < c.id) FROM clicks c;
