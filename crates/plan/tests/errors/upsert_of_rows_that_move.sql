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
CREATE TABLE out (page STRING, n BIGINT, PRIMARY KEY (page) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
INSERT INTO out SELECT page, n FROM (SELECT page, MAX(id) AS n FROM clicks GROUP BY page) a WHERE EXISTS (SELECT 1 FROM events e WHERE e.amount = a.n) ON CONFLICT DO ERROR;
