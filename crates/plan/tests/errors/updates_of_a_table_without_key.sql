CREATE TABLE clicks (page STRING) WITH ('connector' = 'stream');
CREATE TABLE pages (page STRING, n BIGINT) WITH ('connector' = 'jdbc');
INSERT INTO pages SELECT page, COUNT(*) FROM clicks GROUP BY page;
