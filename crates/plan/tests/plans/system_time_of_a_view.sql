CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE pages (page STRING, owner STRING) WITH ('connector' = 'filesystem');
CREATE VIEW owned AS SELECT page, owner FROM pages WHERE owner IS NOT NULL;
CREATE TABLE results (page STRING, owner STRING) WITH ('connector' = 'print');
INSERT INTO results
SELECT c.page, o.owner FROM clicks c LEFT JOIN owned FOR SYSTEM_TIME AS OF c.ts AS o ON c.page = o.page;
