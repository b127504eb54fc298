SET 'table.local-time-zone' = 'America/New_York';
CREATE TABLE visits (id INT, who STRING, n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '$DATA/visits.json', 'format' = 'json');
CREATE TABLE results (zone STRING, who STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), window_time TIMESTAMP_LTZ(3), n BIGINT, last STRING)
WITH ('connector' = 'collect');
INSERT INTO results
SELECT 'New York', who, window_start, window_end, window_time, SUM(n), MAX(CAST(ts AS STRING))
FROM TABLE(HOP(TABLE visits, DESCRIPTOR(ts), INTERVAL '12' HOUR, INTERVAL '1' DAY)) GROUP BY who, window_start, window_end, window_time;
SET 'table.local-time-zone' = 'America/Sao_Paulo';
INSERT INTO results
SELECT 'Sao Paulo', who, window_start, window_end, window_time, SUM(n), MAX(CAST(ts AS STRING))
FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY who, window_start, window_end, window_time;
