CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (id BIGINT, who STRING, total DOUBLE, second INT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT id, UPPER(customer), price * amount, CAST(EXTRACT(SECOND FROM at) AS INT)
FROM orders WHERE item LIKE 't%' AND (price > 3.2 OR price IS NULL);
