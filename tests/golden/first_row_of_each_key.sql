-- The first row of each key in the order of event time: it stays, and windows may follow. No two orders of a key are at the same time.
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, id BIGINT, n BIGINT, total DOUBLE) WITH ('connector' = 'collect');
INSERT INTO results
SELECT 'of an item', item, id, n, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY at) AS n FROM orders) WHERE n = 1;
INSERT INTO results
SELECT 'of two keys', customer, id, amount, 0 FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer, amount > 1 ORDER BY at ASC) AS n FROM orders) WHERE n <= 1 AND price > 1;
INSERT INTO results
SELECT 'of all', item, id, 1, price FROM orders QUALIFY ROW_NUMBER() OVER (ORDER BY at) = 1;
CREATE VIEW firsts AS
SELECT customer, id, at FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY at) AS n FROM orders) WHERE n < 2;
INSERT INTO results
SELECT 'then windows', CAST(window_end AS STRING), MAX(id), COUNT(*), 0
FROM TABLE(TUMBLE(TABLE firsts, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
INSERT INTO results
SELECT 'then each key', customer, id, ROW_NUMBER() OVER (ORDER BY at), 0 FROM firsts;
INSERT INTO results
SELECT 'joined', o.item, o.id, f.id, o.price FROM orders AS o JOIN firsts AS f ON o.customer = f.customer AND o.at BETWEEN f.at AND f.at + INTERVAL '5' SECOND;
INSERT INTO results
SELECT 'counted', CAST(NULL AS STRING), COUNT(*), 0, 0 FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY amount ORDER BY at) AS n FROM orders) WHERE n = 1;
CREATE VIEW counts AS
SELECT item, window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY item, window_start, window_end, window_time;
INSERT INTO results
SELECT 'of windows', item, n, 0, 0 FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY wt) AS place FROM counts) WHERE place = 1;
