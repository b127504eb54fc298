CREATE TABLE events (
    user_id STRING, page_id STRING, ad_id STRING, event_type STRING, price DOUBLE, amount INT,
    event_time BIGINT,
    ts AS TO_TIMESTAMP_LTZ(event_time, 3),
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'stream', 'scan.idle-timeout' = '10 s');
CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE campaigns WITH ('connector' = 'ad_campaigns');
CREATE TABLE rates (currency STRING, rate DECIMAL(10, 4), valid DATE) WITH ('connector' = 'filesystem');
CREATE TABLE out (what STRING, n BIGINT) WITH ('connector' = 'print');
CREATE VIEW everything AS
SELECT page_id AS what, ts FROM events UNION ALL SELECT ad_id, ts FROM events WHERE amount > 1;
INSERT INTO out SELECT what, COUNT(*) FROM TABLE(TUMBLE(TABLE everything, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY what, window_start, window_end;
INSERT INTO out SELECT page, id FROM clicks UNION ALL SELECT page_id, amount FROM events;
