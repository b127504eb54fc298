-- Functions of values in the order in which they come: of rows that stay, and of rows that are taken back. One file is read, by one task.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders/1.ndjson', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, first_one STRING, last_one STRING, texts STRING, n BIGINT) WITH ('connector' = 'collect');
SET 'execution.runtime-mode' = 'streaming';
INSERT INTO results
SELECT 'by item', item, FIRST_VALUE(customer), LAST_VALUE(customer), LISTAGG(customer, '; '), CARDINALITY(ARRAY_AGG(customer)) FROM orders GROUP BY item;
INSERT INTO results
SELECT 'filtered', CAST(amount AS STRING), FIRST_VALUE(item) FILTER (WHERE id > 2), LAST_VALUE(item), LISTAGG(item), CARDINALITY(ARRAY_AGG(DISTINCT item)) FROM orders GROUP BY amount;
-- The number of orders of a customer is taken back when the next one comes. One text at a time: their order is that of changes.
INSERT INTO results
SELECT 'of counts', CAST(n AS STRING), FIRST_VALUE('x'), LAST_VALUE('y'), LISTAGG('z'), CARDINALITY(ARRAY_AGG(n))
FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) GROUP BY n;
INSERT INTO results
SELECT 'with NULL', CAST(amount AS STRING), MIN(customer), MAX(customer), CAST(COUNT(DISTINCT customer) AS STRING), CARDINALITY(ARRAY_AGG(DISTINCT customer)) FROM orders GROUP BY amount;
