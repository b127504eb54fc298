-- Numbers of rows of set operations of which no column is read, where tables end.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'both', COUNT(*) FROM (SELECT item FROM orders INTERSECT ALL SELECT item FROM orders WHERE id <> 5);
INSERT INTO results SELECT 'less', COUNT(*) FROM (SELECT item FROM orders EXCEPT ALL SELECT item FROM orders WHERE id = 5);
INSERT INTO results SELECT 'each', 1 FROM (SELECT item, amount FROM orders EXCEPT ALL SELECT item, amount FROM orders WHERE id = 5);
INSERT INTO results SELECT 'united', COUNT(*) FROM (SELECT 1 FROM (SELECT item FROM orders INTERSECT ALL SELECT item FROM orders) UNION ALL SELECT 2 FROM orders);
