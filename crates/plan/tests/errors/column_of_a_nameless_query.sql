CREATE TABLE clicks (id BIGINT, page STRING) WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (page STRING, n BIGINT) WITH ('connector' = 'print');
INSERT INTO out SELECT page, COUNT(*) FROM (SELECT page FROM clicks);
