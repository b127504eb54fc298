CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE plain (id BIGINT NOT NULL, page STRING) WITH ('connector' = 'kafka', 'topic' = 'pages');
CREATE TABLE people (id BIGINT, name STRING, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts) WITH ('connector' = 'upsert-kafka');
CREATE TABLE out (id BIGINT) WITH ('connector' = 'print');
CREATE VIEW best AS SELECT id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY n DESC) AS k FROM clicks) WHERE k = 1;
INSERT INTO out
SELECT c.id FROM clicks AS c JOIN best FOR SYSTEM_TIME AS OF c.ts AS p ON p.id = c.id;
