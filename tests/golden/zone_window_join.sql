SET 'execution.runtime-mode' = 'streaming';
SET 'table.local-time-zone' = 'America/New_York';
CREATE TABLE visits (id INT, who STRING, n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '$DATA/visits.json', 'format' = 'json');
CREATE TABLE results (id INT, other INT, window_start TIMESTAMP(3), window_end TIMESTAMP(3), ts STRING) WITH ('connector' = 'collect');
CREATE VIEW hours AS SELECT * FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '1' HOUR));
INSERT INTO results
SELECT a.id, b.id, a.window_start, a.window_end, CAST(a.ts AS STRING)
FROM (SELECT * FROM hours WHERE who = 'ann') AS a
LEFT JOIN (SELECT * FROM hours WHERE who = 'bob') AS b ON a.window_start = b.window_start AND a.window_end = b.window_end;
