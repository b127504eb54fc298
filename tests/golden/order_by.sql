-- Rows in an order: by event time as it goes on, by processing time, and at the end of a table that ends; and the first rows that come.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, n BIGINT, price DOUBLE) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'by time', item, id, price FROM orders WHERE price > 1 ORDER BY at, price DESC, item;
INSERT INTO results SELECT 'by the clock', item, id, price FROM orders ORDER BY PROCTIME(), price;
INSERT INTO results SELECT 'as they come', customer, id, price FROM orders ORDER BY PROCTIME();
INSERT INTO results SELECT 'at the end', item, id, price FROM orders ORDER BY price, at DESC NULLS LAST;
INSERT INTO results SELECT 'groups', item, COUNT(*), SUM(price) FROM orders GROUP BY item ORDER BY item DESC;
CREATE VIEW counts AS
SELECT item, window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY item, window_start, window_end, window_time;
INSERT INTO results SELECT 'windows', item, n, 0 FROM counts ORDER BY wt, n, item;
INSERT INTO results SELECT 'no effect', CAST(MAX(id) AS STRING), COUNT(*), SUM(price) FROM (SELECT * FROM orders ORDER BY amount);
INSERT INTO results SELECT 'first', NULL, COUNT(*), 0 FROM (SELECT id FROM orders LIMIT 7);
INSERT INTO results SELECT 'skipped', NULL, COUNT(*), COUNT(DISTINCT id) FROM (SELECT id FROM orders LIMIT 1000 OFFSET 3);
INSERT INTO results SELECT 'all', item, id, price FROM orders LIMIT 1000;
