CREATE TABLE g (x INT) WITH ('connector' = 'kafka', 'topic' = 'numbers', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE s (x INT) WITH ('connector' = 'print');
INSERT INTO s SELECT a.x FROM g AS a /*+ OPTIONS('topic' = 'others') */;
