CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE items (item STRING, kind STRING, weight_g INT) WITH ('connector' = 'filesystem', 'path' = '$DATA/items.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE results (how STRING, item STRING, a STRING, b STRING, customer STRING) WITH ('connector' = 'collect');
INSERT INTO results
SELECT 'window', item, DATE_FORMAT(window_start, 'HH:mm:ss'), CAST(id AS STRING), customer
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND)) WHERE amount = 1;
INSERT INTO results
SELECT 'join', o.item, DATE_FORMAT(o.window_end, 'HH:mm:ss'), i.kind, o.customer
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND)) o
LEFT JOIN items i ON o.item = i.item AND EXTRACT(SECOND FROM o.window_start) > i.weight_g / 100
WHERE o.amount = 1;
