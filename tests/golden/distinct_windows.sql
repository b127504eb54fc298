CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (window_start TIMESTAMP(3), window_end TIMESTAMP(3)) WITH ('connector' = 'collect');
INSERT INTO results
SELECT window_start, window_end
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;
