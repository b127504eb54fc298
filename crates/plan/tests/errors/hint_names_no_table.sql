CREATE TABLE orders (id BIGINT, customer STRING, price DOUBLE) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE paid (customer STRING, total DOUBLE, PRIMARY KEY (customer) NOT ENFORCED) WITH ('connector' = 'blackhole');
INSERT INTO paid SELECT /*+ STATE_TTL('orders' = '3 d') */ customer, SUM(price) FROM orders AS o GROUP BY customer;
