-- Columns of one side that have the same name.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, n BIGINT, m BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'except', item, id, id FROM orders EXCEPT ALL SELECT 'except', item, id, id FROM orders WHERE id < 4;
INSERT INTO results SELECT 'joined', * FROM (SELECT o.item, o.id, p.id FROM orders AS o JOIN orders AS p ON o.item = p.item INTERSECT ALL SELECT item, 1, id FROM orders) AS x;
INSERT INTO results SELECT 'union', item, amount, amount FROM orders UNION SELECT 'union', item, 1, 1 FROM orders;
