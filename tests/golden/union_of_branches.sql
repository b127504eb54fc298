CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (item STRING, window_end TIMESTAMP(3), n BIGINT) WITH ('connector' = 'collect');
CREATE VIEW few AS SELECT item, at FROM orders WHERE amount = 1;
CREATE VIEW many AS SELECT item || '+' AS item, at FROM orders WHERE amount > 1;
CREATE VIEW both_kinds AS SELECT * FROM few UNION ALL SELECT * FROM many;
INSERT INTO results
SELECT item, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE both_kinds, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY item, window_start, window_end;
