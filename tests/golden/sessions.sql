CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), window_time TIMESTAMP(3), n BIGINT, total DOUBLE) WITH ('connector' = 'collect');
INSERT INTO results
SELECT 'table function', item, window_start, window_end, window_time, COUNT(*), SUM(price)
FROM TABLE(SESSION(TABLE orders PARTITION BY item, DESCRIPTOR(at), INTERVAL '9' SECOND))
GROUP BY item, window_start, window_end, window_time;
INSERT INTO results
SELECT 'two keys', customer || item, window_start, window_end, window_time, COUNT(DISTINCT id), MAX(price)
FROM SESSION(DATA => TABLE orders PARTITION BY (customer, item), TIMECOL => DESCRIPTOR(at), GAP => INTERVAL '5' SECOND)
GROUP BY customer, item, window_start, window_end, window_time;
INSERT INTO results
SELECT 'all rows', CAST(NULL AS STRING), window_start, window_end, window_time, COUNT(*), SUM(price) FILTER (WHERE amount > 1)
FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(at), INTERVAL '4' SECOND)) GROUP BY window_start, window_end, window_time;
INSERT INTO results
SELECT 'group window', o.item, SESSION_START(o.at, INTERVAL '9' SECOND), SESSION_END(o.at, INTERVAL '9' SECOND), SESSION_ROWTIME(o.at, INTERVAL '9' SECOND), COUNT(*), SUM(price)
FROM orders o WHERE o.id <> 5 GROUP BY o.item, SESSION(o.at, INTERVAL '9' SECOND) HAVING COUNT(*) > 0;
INSERT INTO results
SELECT 'of an expression', CAST(MOD(id, 2) AS STRING), SESSION_START(at, INTERVAL '2' SECOND), SESSION_END(at, INTERVAL '2' SECOND), CAST(NULL AS TIMESTAMP(3)), COUNT(*), SUM(price)
FROM orders GROUP BY SESSION(at, INTERVAL '2' SECOND), MOD(id, 2);
CREATE VIEW per_item AS
SELECT item, window_start AS began, window_time AS wt, COUNT(*) AS n
FROM TABLE(SESSION(TABLE orders PARTITION BY item, DESCRIPTOR(at), INTERVAL '9' SECOND)) GROUP BY item, window_start, window_end, window_time;
INSERT INTO results
SELECT 'in hours', CAST(NULL AS STRING), window_start, window_end, MIN(began), SUM(n), AVG(n)
FROM TABLE(TUMBLE(TABLE per_item, DESCRIPTOR(wt), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
CREATE VIEW sessions AS
SELECT item, window_start, window_end, COUNT(*) AS n
FROM TABLE(SESSION(TABLE orders PARTITION BY item, DESCRIPTOR(at), INTERVAL '9' SECOND)) GROUP BY item, window_start, window_end;
INSERT INTO results
SELECT 'again', CAST(NULL AS STRING), window_start, window_end, CAST(NULL AS TIMESTAMP(3)), SUM(n), 0 FROM sessions GROUP BY window_start, window_end;
