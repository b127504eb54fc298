CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, item STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), window_time TIMESTAMP(3), n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT 'aggregate', item, window_start, window_end, window_time, COUNT(*)
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '20' SECOND))
GROUP BY item, window_start, window_end, window_time;
INSERT INTO results
SELECT 'named', CAST(NULL AS STRING), window_start, window_end, MAX(at), COUNT(DISTINCT item)
FROM TABLE(CUMULATE(DATA => TABLE orders, TIMECOL => DESCRIPTOR(at), STEP => INTERVAL '10' SECOND, SIZE => INTERVAL '30' SECOND, `OFFSET` => INTERVAL '5' SECOND))
GROUP BY window_start, window_end;
INSERT INTO results
SELECT 'rows', item, window_start, window_end, window_time, id
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '20' SECOND)) WHERE id < 5;
CREATE VIEW per_item AS
SELECT item, window_start, window_end, window_time AS wt, COUNT(*) AS n
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '20' SECOND))
GROUP BY item, window_start, window_end, window_time;
INSERT INTO results
SELECT 'again', CAST(NULL AS STRING), window_start, window_end, CAST(NULL AS TIMESTAMP(3)), MAX(n) FROM per_item GROUP BY window_start, window_end;
INSERT INTO results
SELECT 'tumbled', CAST(NULL AS STRING), window_start, window_end, MAX(start), SUM(n)
FROM TABLE(TUMBLE((SELECT wt, window_start AS start, n FROM per_item), DESCRIPTOR(wt), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
