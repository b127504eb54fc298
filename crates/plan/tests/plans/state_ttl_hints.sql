-- A hint says for how long rows of a table, by its name or alias, are kept; the option is for all others.
SET 'table.exec.state.ttl' = '1 d';

CREATE TABLE orders (id BIGINT, customer STRING, price DOUBLE) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE payments (order_id BIGINT, paid DOUBLE) WITH ('connector' = 'kafka', 'topic' = 'payments', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE paid (customer STRING, total DOUBLE) WITH ('connector' = 'blackhole');

INSERT INTO paid SELECT /*+ STATE_TTL('o' = '2 d', 'payments' = '0 s') */ o.customer, paid
FROM orders AS o JOIN payments ON o.id = payments.order_id;

INSERT INTO paid SELECT /*+ STATE_TTL('orders'='3d') */ customer, SUM(price) FROM orders GROUP BY customer;

INSERT INTO paid SELECT /* no hint */ customer, SUM(price) FROM orders GROUP BY customer;
