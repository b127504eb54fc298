CREATE TABLE events (
    user_id STRING, page_id STRING, ad_id STRING, event_type STRING, price DOUBLE, amount INT,
    event_time BIGINT,
    ts AS TO_TIMESTAMP_LTZ(event_time, 3),
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'stream', 'scan.watermark.idle-timeout' = '10 s');
CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE campaigns WITH ('connector' = 'ad_campaigns');
CREATE TABLE rates (currency STRING, rate DECIMAL(10, 4), valid DATE) WITH ('connector' = 'filesystem');
CREATE TABLE bad (source_table STRING, place STRING, error STRING, record STRING) WITH ('connector' = 'print');
CREATE TABLE risky (a STRING, b STRING) WITH ('connector' = 'kafka', 'topic' = 'x', 'on-malformed' = 'dead-letter', 'dead-letter.table' = 'bad');
CREATE TABLE out (a STRING) WITH ('connector' = 'print');
INSERT INTO out SELECT a FROM risky;
INSERT INTO out SELECT b FROM risky;
