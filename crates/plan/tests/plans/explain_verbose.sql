-- Each pass that changes something is shown, with its plan.
CREATE TABLE orders (id BIGINT, customer STRING, price DECIMAL(10, 2), place ROW<city STRING, zip STRING>)
WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE customers (name STRING, level INT) WITH ('connector' = 'kafka', 'topic' = 'customers');
CREATE TABLE regions (city STRING, region STRING) WITH ('connector' = 'kafka', 'topic' = 'regions');
CREATE FUNCTION doubled(x DECIMAL(10, 2)) RETURNS DECIMAL(12, 2) RETURN x * 2;
EXPLAIN VERBOSE
SELECT DISTINCT o.place.city, c.level
FROM (SELECT *, 1 + 1 AS two FROM orders ORDER BY id) AS o, regions AS r, customers AS c
WHERE o.customer = c.name AND r.region = c.name AND doubled(o.price) > 10 AND two = 2;
