CREATE TABLE events (ad_id STRING, event_type STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'ad_events', 'format' = 'json', 'number-of-rows' = '20000', 'seed' = '1', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE campaigns (ad_id STRING, campaign_id STRING) WITH ('connector' = 'ad_campaigns', 'seed' = '1');
CREATE TABLE results (campaign_id STRING, window_end TIMESTAMP_LTZ(3), views BIGINT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT c.campaign_id, window_end, COUNT(*) AS views
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) e JOIN campaigns c ON e.ad_id = c.ad_id
WHERE e.event_type = 'view' AND c.campaign_id < '3'
GROUP BY c.campaign_id, window_start, window_end;
