CREATE TABLE orders (id BIGINT, customer STRING, price DOUBLE, amount INT, at TIMESTAMP(3),
  total AS price * amount, initial AS SUBSTRING(customer, 1, 1), WATERMARK FOR at AS at)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (id BIGINT, total DOUBLE, initial STRING, size STRING, day DATE) WITH ('connector' = 'collect');
INSERT INTO results
SELECT id, ROUND(COALESCE(total, 0), 1), initial, CASE WHEN amount > 3 THEN 'bulk' WHEN amount > 1 THEN 'few' ELSE 'one' END, CAST(at AS DATE)
FROM orders WHERE customer IS NOT NULL;
