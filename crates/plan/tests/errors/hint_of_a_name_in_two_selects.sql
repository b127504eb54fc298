CREATE TABLE orders (k BIGINT, v BIGINT) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE payments (k BIGINT, v BIGINT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE results (k BIGINT, v BIGINT) WITH ('connector' = 'print');
INSERT INTO results SELECT /*+ STATE_TTL('o' = '1 h'), BROADCAST(o) */ k, SUM(v) FROM orders AS o GROUP BY k UNION ALL SELECT k, SUM(v) FROM payments AS o GROUP BY k;
