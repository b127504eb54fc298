-- Rows of a join of the same windows belong to these windows.
CREATE TABLE orders (id BIGINT, qty INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE payments (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'kafka', 'topic' = 'payments');
CREATE TABLE out (s TIMESTAMP(3), n BIGINT) WITH ('connector' = 'filesystem');
INSERT INTO out SELECT l.window_start, COUNT(*)
FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS l
JOIN (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS r
ON l.id = r.id AND l.window_start = r.window_start AND l.window_end = r.window_end
GROUP BY l.window_start, l.window_end;
