CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE items (item STRING, kind STRING, weight_g INT) WITH ('connector' = 'filesystem', 'path' = '$DATA/items.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE results (kind STRING, window_end TIMESTAMP(3), turnover DOUBLE) WITH ('connector' = 'collect');
INSERT INTO results
SELECT i.kind, window_end, SUM(o.price * o.amount) AS turnover
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '20' SECOND)) o JOIN items i ON o.item = i.item
GROUP BY i.kind, window_start, window_end HAVING SUM(o.price * o.amount) > 10;
