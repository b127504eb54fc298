SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE results (what STRING, place STRING, n STRING, record STRING) WITH ('connector' = 'collect');
CREATE TABLE events (ad_id STRING, event_type STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
WITH ('connector' = 'ad_events', 'rows-per-second' = '20000', 'number-of-rows' = '120', 'seed' = '1', 'format' = 'json',
  'malformed-every' = '40', 'on-malformed' = 'dead-letter', 'dead-letter.table' = 'results');
CREATE VIEW typed AS SELECT window_start, window_end, event_type, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '0.002' SECOND)) GROUP BY window_start, window_end, event_type;
-- A view over the table, read by two statements and twice by one of them.
INSERT INTO results SELECT 'type', event_type, CAST(n AS STRING), CAST(window_start AS STRING) FROM typed;
INSERT INTO results SELECT 'types', a.event_type, b.event_type, CAST(a.n - b.n AS STRING)
FROM typed a JOIN typed b ON a.window_start = b.window_start AND a.window_end = b.window_end WHERE a.event_type < b.event_type;
-- Other columns of the same table, and the table joined with itself.
INSERT INTO results SELECT 'ad', ad_id, CAST(COUNT(*) AS STRING), '' FROM events GROUP BY ad_id HAVING COUNT(*) > 1;
INSERT INTO results SELECT 'next', a.event_type, b.event_type, CAST(a.event_time AS STRING)
FROM events a JOIN events b ON a.ad_id = b.ad_id AND a.event_type = b.event_type AND a.event_time < b.event_time;
