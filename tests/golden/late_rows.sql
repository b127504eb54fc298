CREATE TABLE late (n BIGINT, sensor STRING, at TIMESTAMP(3), more ROW<x INT, tags ARRAY<STRING>>) WITH ('connector' = 'collect');
CREATE TABLE readings (n BIGINT, sensor STRING, at TIMESTAMP(3), more ROW<x INT, tags ARRAY<STRING>>, twice AS n * 2, WATERMARK FOR at AS at - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/readings', 'format' = 'json', 'scan.watermark.lateness' = 'partition', 'scan.watermark.late-table' = 'late');
CREATE TABLE results (sensor STRING, window_start TIMESTAMP(3), n BIGINT, total BIGINT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT sensor, window_start, COUNT(*), SUM(twice) FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY sensor, window_start, window_end;
INSERT INTO results SELECT 'not late', CAST(NULL AS TIMESTAMP(3)), COUNT(*), COUNT(at) FROM readings;
