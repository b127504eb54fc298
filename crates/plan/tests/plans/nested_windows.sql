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
CREATE TABLE out (e TIMESTAMP_LTZ(3), pages BIGINT, top BIGINT) WITH ('connector' = 'print');
CREATE VIEW per_second AS
SELECT page_id, window_time AS t, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY page_id, window_start, window_end, window_time;
INSERT INTO out
SELECT window_end, COUNT(*), MAX(n)
FROM TABLE(TUMBLE(TABLE per_second, DESCRIPTOR(t), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
