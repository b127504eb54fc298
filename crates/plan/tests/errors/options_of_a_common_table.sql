CREATE TABLE g (x INT) WITH ('connector' = 'kafka', 'topic' = 'numbers', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE s (x INT) WITH ('connector' = 'print');
INSERT INTO s WITH g AS (SELECT 1 AS x) SELECT x FROM g /*+ OPTIONS('topic' = 'others') */;
