CREATE TABLE orders (id BIGINT, customer INT, region STRING, amount BIGINT, ts TIMESTAMP(3), proctime AS PROCTIME(),
  WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE customers (id BIGINT, region STRING, name STRING, level INT, title AS UPPER(name)) WITH ('connector' = 'jdbc');
CREATE VIEW named AS SELECT o.ts, o.amount, c.name FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON c.id = o.customer;
CREATE TABLE out (name STRING, n BIGINT, w TIMESTAMP(3)) WITH ('connector' = 'blackhole');
INSERT INTO out
SELECT c.name, COUNT(*), window_end FROM TABLE(TUMBLE(TABLE named, DESCRIPTOR(ts), INTERVAL '10' SECOND)) AS c GROUP BY c.name, window_start, window_end;
