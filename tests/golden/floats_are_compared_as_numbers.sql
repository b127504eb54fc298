CREATE TABLE numbers (id BIGINT, a BIGINT, b BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE results (what STRING, id BIGINT, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT '=', id, 0 FROM numbers WHERE x = 0;
INSERT INTO results SELECT 'in', id, 0 FROM numbers WHERE x IN (0.0, 1.5);
INSERT INTO results SELECT 'not in', id, 0 FROM numbers WHERE x NOT IN (0.0, 7.5);
INSERT INTO results SELECT 'case', id, CASE x WHEN 0.0 THEN 1 WHEN 1.5 THEN 2 ELSE 3 END FROM numbers;
INSERT INTO results SELECT 'nullif', id, 0 FROM numbers WHERE NULLIF(x, CAST(0 AS DOUBLE)) IS NULL;
INSERT INTO results SELECT 'distinct', COUNT(DISTINCT x), COUNT(x) FROM numbers;
INSERT INTO results SELECT 'group', MIN(id), COUNT(*) FROM numbers GROUP BY x;
INSERT INTO results SELECT 'is distinct', id, 0 FROM numbers WHERE x IS DISTINCT FROM CAST(0 AS DOUBLE);
