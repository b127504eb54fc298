CREATE TABLE numbers (id BIGINT, a BIGINT, b BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE results (what STRING, id BIGINT, shown STRING) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'literals', id, CAST(0.1 + 0.2 = 0.3 AS STRING) FROM numbers WHERE id = 1;
INSERT INTO results SELECT 'quotient', id, CAST(d / 3 AS STRING) FROM numbers;
INSERT INTO results SELECT 'quotient of decimals', id, CAST(d / CAST(3 AS DECIMAL(10, 2)) AS STRING) FROM numbers;
INSERT INTO results SELECT 'negative', id, CAST(-d / 3 AS STRING) FROM numbers;
INSERT INTO results SELECT 'sum', id, CAST(d + 0.005 AS STRING) FROM numbers;
INSERT INTO results SELECT 'difference', id, CAST(1 - d AS STRING) FROM numbers;
INSERT INTO results SELECT 'product', id, CAST(d * d AS STRING) FROM numbers;
INSERT INTO results SELECT 'remainder', id, CAST(d % 3 AS STRING) FROM numbers;
INSERT INTO results SELECT 'too large', id, CAST(CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) * d AS STRING) FROM numbers;
INSERT INTO results SELECT 'wide', id, CAST(CAST('12345678901234567890.123456789012345678' AS DECIMAL(38, 18)) * CAST('1.000000000000000001' AS DECIMAL(38, 18)) / d AS STRING) FROM numbers;
INSERT INTO results SELECT 'totals', COUNT(*), CAST(SUM(d) AS STRING) || ' ' || CAST(AVG(d) AS STRING) || ' ' || CAST(SUM(DISTINCT d) AS STRING) FROM numbers;
INSERT INTO results SELECT 'totals by', a, CAST(SUM(d) AS STRING) || ' ' || CAST(AVG(d) AS STRING) FROM numbers GROUP BY a;
INSERT INTO results SELECT 'whole', id, CAST(a / 3 AS STRING) FROM numbers;
INSERT INTO results SELECT 'exponent', id, CAST(1e3 / 7 AS STRING) FROM numbers WHERE id = 1;
