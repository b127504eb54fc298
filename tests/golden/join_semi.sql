CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE items (item STRING, kind STRING, weight_g INT) WITH ('connector' = 'filesystem', 'path' = '$DATA/items.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE results (id BIGINT, item STRING) WITH ('connector' = 'collect');
INSERT INTO results SELECT id, item FROM orders WHERE item IN (SELECT item FROM items WHERE kind = 'ware');
