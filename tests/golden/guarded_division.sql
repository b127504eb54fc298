CREATE TABLE numbers (id BIGINT, a BIGINT, b BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE results (what STRING, id BIGINT, q BIGINT) WITH ('connector' = 'collect');
CREATE VIEW quotients AS SELECT id, a, b, s, a / b AS q FROM numbers;
INSERT INTO results SELECT 'where', id, a FROM numbers WHERE b <> 0 AND a / b > 1;
INSERT INTO results SELECT 'where, order', id, a FROM numbers WHERE a / b > 1 AND b <> 0 AND 10 / b > 0;
INSERT INTO results SELECT 'subquery', id, a / b FROM (SELECT * FROM numbers WHERE b <> 0) WHERE a / b > 1;
INSERT INTO results SELECT 'view', id, q FROM quotients WHERE b <> 0 AND q > 0;
INSERT INTO results SELECT 'case', id, CASE WHEN b <> 0 AND a / b > 1 THEN a / b WHEN b = 0 OR 10 / b > 100 THEN -1 ELSE 0 END FROM numbers;
INSERT INTO results SELECT 'case over a view', id, CASE WHEN b <> 0 THEN q ELSE -1 END + CASE WHEN b <> 0 THEN q ELSE -1 END FROM quotients;
INSERT INTO results SELECT 'cast', id, CAST(s AS BIGINT) FROM numbers WHERE s <> 'x' AND CAST(s AS BIGINT) > 6;
INSERT INTO results SELECT 'cast before division', id, 84 / CAST(s AS BIGINT) FROM (SELECT id, s FROM numbers WHERE s <> 'x') WHERE CAST(s AS BIGINT) <> 0 AND 84 / CAST(s AS BIGINT) > 6;
INSERT INTO results SELECT 'filter', COUNT(*), SUM(a / b) FILTER (WHERE b <> 0) FROM numbers;
INSERT INTO results SELECT 'filters', SUM(a / b) FILTER (WHERE b > 2), MAX(a / b) FILTER (WHERE b <> 0) FROM numbers;
INSERT INTO results SELECT 'windowed filter', COUNT(*), SUM(a / b) FILTER (WHERE b <> 0) FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
