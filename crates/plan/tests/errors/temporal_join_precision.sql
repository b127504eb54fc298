CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE plain (id BIGINT NOT NULL, page STRING) WITH ('connector' = 'kafka', 'topic' = 'pages');
CREATE TABLE people (id BIGINT, name STRING, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts) WITH ('connector' = 'upsert-kafka');
CREATE TABLE out (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE fine (id BIGINT, ts TIMESTAMP(6), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'fine');
INSERT INTO out
SELECT c.id FROM clicks AS c JOIN fine FOR SYSTEM_TIME AS OF c.ts AS p ON p.id = c.id;
