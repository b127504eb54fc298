CREATE TABLE g (x INT) WITH ('connector' = 'kafka', 'topic' = 'numbers', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE s (x INT) WITH ('connector' = 'print');
CREATE VIEW v AS SELECT x FROM g;
INSERT INTO s SELECT /*+ OPTIONS('topic' = 'others') */ x FROM g;
