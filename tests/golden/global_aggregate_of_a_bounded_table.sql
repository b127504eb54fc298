CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (n BIGINT, total DOUBLE, none BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT COUNT(*), SUM(price), SUM(amount) FILTER (WHERE id > 100) FROM orders;
INSERT INTO results SELECT COUNT(*), MAX(price), 0 FROM orders WHERE id > 100;
