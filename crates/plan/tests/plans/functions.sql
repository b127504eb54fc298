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
CREATE TABLE out (a STRING, b TIMESTAMP(3), c STRING, d BOOLEAN, e INT, f STRING, g BIGINT, h BOOLEAN, i BIGINT) WITH ('connector' = 'print');
INSERT INTO out SELECT IFNULL(page, 'none'), TO_TIMESTAMP('2024-01-01 00:00:00'), SUBSTRING(page FROM 2 FOR 3), page SIMILAR TO '(a|b)%',
  CHAR_LENGTH(page), COALESCE(page, 'x') || '!', POSITION('a' IN page), page ~ '^/[a-z]+$', TRY_CAST(page AS BIGINT) FROM clicks
WHERE (page = 'a') IS TRUE OR NOT (id % 2 = 0) OR ts < TO_TIMESTAMP_LTZ(1700000000, 0) OR ts + INTERVAL '1' HOUR > TIMESTAMP '2024-01-01 00:00:00';
