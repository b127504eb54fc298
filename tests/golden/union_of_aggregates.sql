-- Branches with and without an aggregate: which of them reads which rows does not depend on the parallelism.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT item, id FROM orders WHERE id < 5
UNION ALL SELECT customer, COUNT(*) FROM orders GROUP BY customer
UNION ALL SELECT 'all', COUNT(DISTINCT item) FROM orders;
