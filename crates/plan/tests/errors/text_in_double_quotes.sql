CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (n BIGINT, page STRING) WITH ('connector' = 'print');
INSERT INTO out
SELECT id, page FROM clicks WHERE page = "home";
