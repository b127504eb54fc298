CREATE TABLE orders (id BIGINT, customer INT, region STRING, amount BIGINT, ts TIMESTAMP(3), proctime AS PROCTIME(),
  WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE customers (id BIGINT, region STRING, name STRING, level INT, title AS UPPER(name)) WITH ('connector' = 'jdbc');
CREATE TABLE out (id BIGINT, name STRING) WITH ('connector' = 'blackhole');
INSERT INTO out
SELECT o.id, c.name FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.ts AS c ON c.id = o.customer;
