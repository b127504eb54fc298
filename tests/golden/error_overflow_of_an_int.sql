-- error: a number is out of range
CREATE TABLE numbers (id BIGINT, a BIGINT, b BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE results (n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT CAST(2147483600 + id AS INT) * CAST(id AS INT) FROM numbers;
