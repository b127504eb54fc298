-- Functions over rows that have the results of others, in the same order. No two orders of a partition are at the same time.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, id BIGINT, n BIGINT, total DOUBLE) WITH ('connector' = 'collect');
CREATE VIEW numbered AS SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY at) AS n FROM orders;
INSERT INTO results SELECT 'numbers', item, id, SUM(n) OVER (PARTITION BY item ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), 0 FROM numbered;
INSERT INTO results
SELECT 'sums', item, id, COUNT(*) OVER (ORDER BY at RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW), SUM(s) OVER (ORDER BY at)
FROM (SELECT item, id, at, SUM(price) OVER (PARTITION BY item ORDER BY at) AS s FROM orders);
INSERT INTO results
SELECT 'numbers of numbers', item, id, ROW_NUMBER() OVER (PARTITION BY item, n > 1 ORDER BY at), n FROM numbered WHERE amount < 4;
INSERT INTO results
SELECT 'in windows', item, MAX(id), SUM(n), 0 FROM TABLE(TUMBLE(TABLE numbered, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY item, window_start, window_end;
