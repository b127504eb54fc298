CREATE TABLE orders (id BIGINT, customer INT, region STRING, amount BIGINT, ts TIMESTAMP(3), proctime AS PROCTIME(),
  WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE customers (id BIGINT, region STRING, name STRING, level INT, title AS UPPER(name)) WITH ('connector' = 'jdbc');
CREATE TABLE users (id BIGINT, name STRING) WITH ('connector' = 'http');
CREATE TABLE out (name STRING) WITH ('connector' = 'blackhole');
INSERT INTO out
SELECT name FROM users;
