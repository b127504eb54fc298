CREATE TABLE clicks (page STRING, user_id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (page STRING, n BIGINT) WITH ('connector' = 'print');
CREATE VIEW counts AS SELECT page, COUNT(*) AS n, window_start, window_end
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end;
-- Three readers of the view: their partial aggregates are one stage, which has the source.
INSERT INTO out SELECT page, n FROM counts;
INSERT INTO out SELECT page, MAX(n) FROM counts GROUP BY page, window_start, window_end;
INSERT INTO out SELECT UPPER(page), n FROM counts WHERE n > 10;
-- A table that is asked for the rows of another source, which has one reader from the start.
CREATE TABLE orders (id BIGINT, customer INT, proctime AS PROCTIME()) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE customers (id BIGINT, name STRING) WITH ('connector' = 'jdbc');
INSERT INTO out SELECT c.name, o.id FROM orders AS o
LEFT JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id;
