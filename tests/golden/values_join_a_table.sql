-- Constant rows as a static table; a window over rows that a condition drops all.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (kind STRING, n BIGINT) WITH ('connector' = 'collect');
CREATE VIEW kinds AS SELECT * FROM (VALUES ('tea', 'food'), ('cup', 'ware')) AS v (item, kind);
INSERT INTO results
SELECT kind, SUM(amount) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '20' SECOND)) o
JOIN kinds ON o.item = kinds.item GROUP BY kind, window_start, window_end;
INSERT INTO results
SELECT 'never', COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '20' SECOND))
WHERE 1 = 0 GROUP BY window_start, window_end;
