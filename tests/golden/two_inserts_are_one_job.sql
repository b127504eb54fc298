CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT item, CAST(amount AS BIGINT) FROM orders WHERE id = 1;
INSERT INTO results SELECT customer, COUNT(*) FROM orders GROUP BY customer;
