-- Functions over the rows before each row, in the order of event time. No two orders of a partition are at the same time, but for 'same time'.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, id BIGINT, n BIGINT, total DOUBLE) WITH ('connector' = 'collect');
INSERT INTO results
SELECT 'rows', item, id, COUNT(*) OVER (PARTITION BY item ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW),
       SUM(price) OVER (PARTITION BY item ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders;
INSERT INTO results
SELECT 'range', CAST(at AS STRING), id, COUNT(price) OVER w, MAX(price * amount) OVER w FROM orders
WINDOW w AS (ORDER BY at RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW);
INSERT INTO results
SELECT 'all before', item, id, SUM(amount) FILTER (WHERE price > 3) OVER (PARTITION BY item ORDER BY at), MIN(price) OVER (PARTITION BY item ORDER BY at) FROM orders;
INSERT INTO results
SELECT 'number', LAST_VALUE(customer) OVER w, id, ROW_NUMBER() OVER w, AVG(price) OVER w FROM orders
WINDOW w AS (PARTITION BY amount > 1 ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW);
INSERT INTO results
SELECT 'lag', LAG(customer, 1, item) OVER w, id, LAG(id, 2) OVER w, price - LAG(price) OVER w FROM orders WINDOW w AS (PARTITION BY item ORDER BY at);
INSERT INTO results
SELECT 'several frames', FIRST_VALUE(item) OVER (ORDER BY at ROWS 2 PRECEDING), id,
       COUNT(DISTINCT item) OVER (ORDER BY at RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW),
       SUM(price) OVER (PARTITION BY customer ORDER BY at) FROM orders;
CREATE VIEW before AS
SELECT item, at, id, COUNT(DISTINCT customer) OVER (PARTITION BY amount > 1 ORDER BY at RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) AS customers FROM orders;
INSERT INTO results
SELECT 'then windows', CAST(window_end AS STRING), MAX(id), SUM(customers), 0
FROM TABLE(TUMBLE(TABLE before, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
CREATE VIEW counts AS
SELECT item, window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY item, window_start, window_end, window_time;
INSERT INTO results
SELECT 'of windows', item, n, SUM(n) OVER (PARTITION BY item ORDER BY wt ROWS BETWEEN 3 PRECEDING AND CURRENT ROW), 0 FROM counts WHERE n > 0;
INSERT INTO results
SELECT 'same time', item, n, SUM(n) OVER (ORDER BY wt), 0 FROM counts;
INSERT INTO results
SELECT 'best of them', item, id, total, 0 FROM (
  SELECT item, id, SUM(amount) OVER (PARTITION BY item ORDER BY at) AS total FROM orders) WHERE total > 2;
