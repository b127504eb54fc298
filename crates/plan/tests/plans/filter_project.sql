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
CREATE TABLE out (page STRING, cents BIGINT, kind STRING, hour BIGINT) WITH ('connector' = 'print');
INSERT INTO out
SELECT UPPER(page_id), CAST(price * 100 AS BIGINT), CASE WHEN amount > 10 THEN 'many' ELSE 'few' END,
       EXTRACT(HOUR FROM ts)
FROM events
WHERE page_id LIKE '/shop/%' AND amount BETWEEN 1 AND 100 AND event_type IN ('view', 'click', 'buy', 'ask') AND price IS NOT NULL;
