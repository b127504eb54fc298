CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (n BIGINT, b BOOLEAN) WITH ('connector' = 'print');
INSERT INTO out
SELECT id, EXISTS (SELECT MAX(id) FROM clicks o WHERE o.page = c.page) FROM clicks c;
