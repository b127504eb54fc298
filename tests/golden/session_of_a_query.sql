-- Sessions of the rows of a query, divided by keys.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT 'by one', item, window_start, window_end, COUNT(*)
FROM TABLE(SESSION((SELECT item, at FROM orders WHERE amount < 4) PARTITION BY item, DESCRIPTOR(at), INTERVAL '9' SECOND)) GROUP BY item, window_start, window_end;
INSERT INTO results
SELECT 'by two', item || customer, window_start, window_end, COUNT(*)
FROM TABLE(SESSION(DATA => (SELECT * FROM orders) PARTITION BY (item, customer), TIMECOL => DESCRIPTOR(at), GAP => INTERVAL '9' SECOND))
GROUP BY item, customer, window_start, window_end;
INSERT INTO results
SELECT 'none', item, window_start, window_end, COUNT(*)
FROM TABLE(TUMBLE((SELECT * FROM orders WHERE FALSE), DESCRIPTOR(at), INTERVAL '9' SECOND)) GROUP BY item, window_start, window_end;
INSERT INTO results
SELECT 'some of none', item, window_start, window_end, COUNT(*)
FROM TABLE(TUMBLE((SELECT item, at FROM orders WHERE id < 4 UNION ALL SELECT item, at FROM orders WHERE 1 > 2), DESCRIPTOR(at), INTERVAL '9' SECOND))
GROUP BY item, window_start, window_end;
