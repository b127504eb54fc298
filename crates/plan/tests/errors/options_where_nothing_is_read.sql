CREATE TABLE g (x INT) WITH ('connector' = 'kafka', 'topic' = 'numbers', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE s (x INT) WITH ('connector' = 'print');
DROP TABLE g /*+ OPTIONS('topic' = 'others') */;
