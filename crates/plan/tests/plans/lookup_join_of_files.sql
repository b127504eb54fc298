CREATE TABLE orders (id BIGINT, customer INT, region STRING, amount BIGINT, ts TIMESTAMP(3), proctime AS PROCTIME(),
  WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE customers (id BIGINT, region STRING, name STRING, level INT, title AS UPPER(name)) WITH ('connector' = 'jdbc');
CREATE TABLE rates (currency STRING, rate DECIMAL(10, 2)) WITH ('connector' = 'filesystem', 'path' = '/tmp/rates', 'lookup.cache' = 'FULL',
  'lookup.full-cache.reload-strategy' = 'PERIODIC', 'lookup.full-cache.periodic-reload.interval' = '5 min');
CREATE VIEW high AS SELECT currency, rate FROM rates WHERE rate > 1;
CREATE TABLE out (id BIGINT, rate DECIMAL(10, 2), name STRING) WITH ('connector' = 'blackhole');
INSERT INTO out
SELECT o.id, r.rate, c.name FROM orders AS o JOIN high FOR SYSTEM_TIME AS OF o.proctime AS r ON o.region = r.currency
JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON c.id = o.customer;
