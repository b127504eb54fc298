CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (id BIGINT, window_start TIMESTAMP(3), window_time TIMESTAMP(3)) WITH ('connector' = 'collect');
INSERT INTO results
SELECT id, window_start, window_time FROM TABLE(HOP(TABLE orders, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) WHERE id < 4;
