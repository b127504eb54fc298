-- Columns of windows as keys like others, where the groups are not those of windows.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT) WITH ('connector' = 'collect');
CREATE VIEW growing AS SELECT * FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '20' SECOND));
INSERT INTO results SELECT DISTINCT 'starts', CAST(NULL AS STRING), window_start, CAST(NULL AS TIMESTAMP(3)), 0 FROM growing;
INSERT INTO results SELECT 'by start', item, window_start, MAX(window_end), COUNT(*) FROM growing GROUP BY item, window_start;
CREATE VIEW divided AS SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND));
INSERT INTO results SELECT 'cube', item, window_start, window_end, COUNT(*) FROM divided GROUP BY CUBE (item, window_start, window_end);
INSERT INTO results SELECT 'sets', item, window_start, window_end, SUM(amount) FROM divided GROUP BY GROUPING SETS ((window_start, window_end, item), (item), ());
INSERT INTO results
SELECT 'of a join', l.item, l.window_start, l.window_end, COUNT(*) FROM divided AS l JOIN divided AS r ON l.window_start = r.window_start AND l.window_end = r.window_end
GROUP BY CUBE (l.item, l.window_start, l.window_end);
INSERT INTO results SELECT 'rollup', customer, window_start, window_end, COUNT(*) FROM growing GROUP BY ROLLUP (window_start, window_end, customer);
