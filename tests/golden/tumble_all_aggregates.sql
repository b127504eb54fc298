CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (item STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, priced BIGINT, amount BIGINT,
  least DOUBLE, most DOUBLE, mean DOUBLE, big BIGINT, customers BIGINT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT item, window_start, window_end, COUNT(*), COUNT(price), SUM(amount), MIN(price), MAX(price), AVG(price),
  COUNT(*) FILTER (WHERE amount > 1), COUNT(DISTINCT customer)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND))
GROUP BY item, window_start, window_end;
