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
CREATE TABLE out (n BIGINT) WITH ('connector' = 'print');
INSERT INTO out
SELECT COUNT(*) FROM TABLE(HOP(DATA => TABLE clicks, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND))
GROUP BY window_start, window_end;
