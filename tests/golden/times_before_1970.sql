CREATE TABLE numbers (id BIGINT, a BIGINT, b BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE seconds (id BIGINT, ts TIMESTAMP(3), at AS CAST(ts AS TIMESTAMP(0)), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE results (n BIGINT, window_start TIMESTAMP(0), window_end TIMESTAMP(0), window_time TIMESTAMP(0)) WITH ('connector' = 'collect');
INSERT INTO results SELECT COUNT(*), window_start, window_end, window_time FROM TABLE(TUMBLE(TABLE seconds, DESCRIPTOR(at), INTERVAL '1' SECOND)) GROUP BY window_start, window_end, window_time;
