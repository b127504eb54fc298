CREATE TABLE a (k BIGINT, v BIGINT) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE b (k BIGINT, w BIGINT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE results (v BIGINT, w BIGINT) WITH ('connector' = 'print');
INSERT INTO results SELECT v, w FROM a FULL JOIN b USING (k) ORDER BY k LIMIT 3;
