CREATE TABLE people (id BIGINT, name STRING, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'upsert-kafka');
CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (id BIGINT, name STRING) WITH ('connector' = 'print');
INSERT INTO out
SELECT c.id, p.name FROM clicks AS c LEFT JOIN people FOR SYSTEM_TIME AS OF c.at AS p ON p.id = c.id AND p.name = c.page;
