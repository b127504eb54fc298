-- Groups, partitions and rows of joins live for a time; windows, joins in time and frames of a time end by themselves.
SET 'table.exec.state.ttl' = '36 h';

CREATE TABLE orders (
  id BIGINT,
  customer STRING,
  price DOUBLE,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');

CREATE TABLE payments (
  order_id BIGINT,
  paid DOUBLE,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'payments', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');

CREATE TABLE sums (customer STRING, total DOUBLE, PRIMARY KEY (customer) NOT ENFORCED) WITH ('connector' = 'blackhole');
CREATE TABLE latest (customer STRING, id BIGINT, PRIMARY KEY (customer) NOT ENFORCED) WITH ('connector' = 'blackhole');
CREATE TABLE before (customer STRING, last3 DOUBLE, total DOUBLE, hour DOUBLE) WITH ('connector' = 'blackhole');
CREATE TABLE paid (id BIGINT, paid DOUBLE) WITH ('connector' = 'blackhole');

INSERT INTO sums SELECT customer, SUM(price) FROM orders GROUP BY customer;

INSERT INTO latest SELECT customer, id FROM (
  SELECT customer, id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts DESC) AS n FROM orders
) WHERE n = 1;

INSERT INTO paid SELECT o.id, p.paid FROM orders AS o JOIN payments AS p ON o.id = p.order_id;

INSERT INTO paid SELECT o.id, p.paid FROM orders AS o JOIN payments AS p
ON o.id = p.order_id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR;

INSERT INTO before SELECT customer,
  SUM(price) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW),
  SUM(price) OVER (PARTITION BY customer ORDER BY ts),
  SUM(price) OVER (PARTITION BY customer ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW)
FROM orders;
