-- Rows of sessions with their bounds, and sessions that are aggregated by other columns than those that divide them.
CREATE TABLE orders (id BIGINT NOT NULL, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, total DOUBLE) WITH ('connector' = 'collect');
CREATE VIEW of_items AS SELECT * FROM TABLE(SESSION(TABLE orders PARTITION BY item, DESCRIPTOR(at), INTERVAL '9' SECOND));
INSERT INTO results SELECT 'rows', item, window_start, window_end, id, price FROM of_items;
INSERT INTO results
SELECT 'all rows', CAST(window_time AS STRING), window_start, window_end, id, 0 FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(at), INTERVAL '4' SECOND)) WHERE amount > 1;
INSERT INTO results SELECT 'fewer keys', CAST(NULL AS STRING), window_start, window_end, COUNT(*), SUM(price) FROM of_items GROUP BY window_start, window_end;
INSERT INTO results SELECT 'more keys', item || customer, window_start, window_end, COUNT(*), SUM(price) FROM of_items GROUP BY item, customer, window_start, window_end;
INSERT INTO results SELECT 'a condition', item, window_start, window_end, COUNT(*), SUM(price) FROM of_items WHERE id <> 5 GROUP BY item, window_start, window_end;
INSERT INTO results SELECT 'bounds', item, MIN(window_start), MAX(window_end), COUNT(*), 0 FROM of_items GROUP BY item;
INSERT INTO results
SELECT 'best', item, window_start, window_end, id, price FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY item, window_start, window_end ORDER BY price DESC, id) AS n FROM of_items) WHERE n = 1;
CREATE VIEW ended AS SELECT window_time AS wt, price FROM of_items;
INSERT INTO results
SELECT 'in hours', CAST(NULL AS STRING), window_start, window_end, COUNT(*), SUM(price)
FROM TABLE(TUMBLE(TABLE ended, DESCRIPTOR(wt), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
