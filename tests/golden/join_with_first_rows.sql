-- A static table of first rows: it is read to its end, and the rows that are left are joined.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (id BIGINT, item STRING, best DOUBLE) WITH ('connector' = 'collect');
INSERT INTO results
SELECT o.id, o.item, b.price FROM orders o JOIN
  (SELECT item, price FROM (SELECT item, price, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC) AS n FROM orders) WHERE n = 1) b ON o.item = b.item;
