CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (window_end TIMESTAMP(3), busiest BIGINT) WITH ('connector' = 'collect');
CREATE VIEW per_item AS
SELECT item, window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND))
GROUP BY item, window_start, window_end, window_time;
INSERT INTO results
SELECT window_end, MAX(n) FROM TABLE(TUMBLE(TABLE per_item, DESCRIPTOR(wt), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
