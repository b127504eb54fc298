CREATE TABLE numbers (id BIGINT, a BIGINT, b BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE results (what STRING, total BIGINT, total_distinct BIGINT) WITH ('connector' = 'collect');
CREATE VIEW large AS SELECT id, ts, CASE WHEN id < 3 THEN 9223372036854775807 WHEN id < 5 THEN -9223372036854775807 ELSE 5 END AS n FROM numbers;
INSERT INTO results SELECT 'all', SUM(n), SUM(DISTINCT n) FROM large;
INSERT INTO results SELECT 'windowed', SUM(n), SUM(DISTINCT n) FROM TABLE(TUMBLE(TABLE large, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO results SELECT 'hopping', SUM(n), COUNT(*) FROM TABLE(HOP(TABLE large, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '60' SECOND)) WHERE id <> 3 AND id <> 1 GROUP BY window_start, window_end;
