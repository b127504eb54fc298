CREATE TABLE numbers (id BIGINT, a BIGINT, b BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE results (what STRING, id BIGINT, shown STRING) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'time', id, CAST(ts AS STRING) FROM numbers;
INSERT INTO results SELECT 'time(0)', id, CAST(CAST(ts AS TIMESTAMP(0)) AS STRING) FROM numbers;
INSERT INTO results SELECT 'time(6)', id, CAST(CAST(ts AS TIMESTAMP(6)) AS STRING) FROM numbers WHERE id < 3;
INSERT INTO results SELECT 'date', id, CAST(CAST(ts AS DATE) AS STRING) FROM numbers;
INSERT INTO results SELECT 'truth', id, CAST(a > 9 AS STRING) FROM numbers;
INSERT INTO results SELECT 'number', id, CAST(x AS STRING) FROM numbers;
INSERT INTO results SELECT 'small', id, CAST(CAST(d AS DOUBLE) / 1000 AS STRING) FROM numbers;
INSERT INTO results SELECT 'float', id, CAST(CAST(x AS FLOAT) AS STRING) FROM numbers;
INSERT INTO results SELECT 'constants', id, CAST(TRUE AS STRING) || CAST(TIMESTAMP '2024-05-06 07:08:09.5' AS STRING) || CAST(CAST(1 AS DOUBLE) AS STRING) FROM numbers WHERE id = 1;
INSERT INTO results SELECT 'unfit', id, CAST(TRY_CAST(s AS INT) AS STRING) FROM numbers;
INSERT INTO results SELECT 'far', id, CAST(TO_TIMESTAMP_LTZ(a * 900000000000000000, 3) AS STRING) FROM numbers WHERE id < 4;
