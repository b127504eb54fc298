CREATE TABLE orders (id BIGINT, customer INT, region STRING, amount BIGINT, ts TIMESTAMP(3), proctime AS PROCTIME(),
  WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE customers (id BIGINT, region STRING, name STRING, level INT, title AS UPPER(name)) WITH ('connector' = 'jdbc', 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '1000', 'lookup.partial-cache.expire-after-write' = '1 min');
CREATE TABLE out (id BIGINT, title STRING, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');
INSERT INTO out
SELECT o.id, c.title, o.ts FROM orders AS o
LEFT JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id AND o.region = c.region AND c.level > 2 AND o.amount > c.level
WHERE o.amount > 10;
