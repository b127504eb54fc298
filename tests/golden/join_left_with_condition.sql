CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE items (item STRING, kind STRING, weight_g INT) WITH ('connector' = 'filesystem', 'path' = '$DATA/items.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE results (id BIGINT, item STRING, kind STRING, grams INT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT o.id, o.item, i.kind, i.weight_g * o.amount FROM orders o LEFT JOIN items i ON o.item = i.item AND i.weight_g > 200 AND o.amount < 3;
