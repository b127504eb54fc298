CREATE TABLE a (k BIGINT, v BIGINT) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE b (k BIGINT, t BIGINT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE results (k BIGINT) WITH ('connector' = 'print');
INSERT INTO results SELECT k FROM a WHERE EXISTS (SELECT * FROM b WHERE b.k = a.k ORDER BY t DESC LIMIT 1);
