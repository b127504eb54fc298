SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE numbers (id BIGINT, a BIGINT, b BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, shown STRING) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'totals', CAST(COUNT(*) AS STRING), CAST(SUM(d) AS STRING) || ' ' || CAST(AVG(d) AS STRING) || ' ' || CAST(SUM(DISTINCT d) AS STRING) FROM numbers;
INSERT INTO results SELECT 'totals by', CAST(a AS STRING), CAST(SUM(d) AS STRING) || ' ' || CAST(AVG(d) AS STRING) || ' ' || CAST(COUNT(s) AS STRING) FROM numbers GROUP BY a;
INSERT INTO results SELECT 'extremes', CAST(a AS STRING), MIN(s) || ' ' || MAX(s) || ' ' || CAST(MIN(d) AS STRING) || ' ' || CAST(MAX(ts) AS STRING) FROM numbers GROUP BY a;
INSERT INTO results SELECT 'zeros', CAST(COUNT(DISTINCT x) AS STRING), CAST(MIN(x) AS STRING) FROM numbers;
INSERT INTO results SELECT 'nothing', CAST(b AS STRING), CAST(SUM(a) FILTER (WHERE id > 100) AS STRING) FROM numbers GROUP BY b;
INSERT INTO results SELECT 'again', CAST(n AS STRING), CAST(COUNT(*) AS STRING) || ' ' || CAST(SUM(total) AS STRING) || ' ' || CAST(MAX(total) AS STRING) FROM (SELECT a, COUNT(*) AS n, SUM(d) AS total FROM numbers GROUP BY a) GROUP BY n;
