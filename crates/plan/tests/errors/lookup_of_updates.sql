CREATE TABLE orders (id BIGINT, customer INT, region STRING, amount BIGINT, ts TIMESTAMP(3), proctime AS PROCTIME(),
  WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE customers (id BIGINT, region STRING, name STRING, level INT, title AS UPPER(name)) WITH ('connector' = 'jdbc');
CREATE TABLE out (n BIGINT, name STRING) WITH ('connector' = 'blackhole');
INSERT INTO out
SELECT n, c.name FROM (SELECT customer, COUNT(*) AS n, PROCTIME() AS proctime FROM orders GROUP BY customer) AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON c.id = o.customer;
