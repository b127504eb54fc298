-- How many views did each advertising campaign get in every 10 seconds? The same query as in ad_campaigns.sql, over
-- from a Kafka topic to a Kafka topic: only the WITH clauses of the source and the sink differ.
--
--     make demo-kafka
--
-- starts a broker, fills the topic from one process, and runs this file in another. With a broker of your own:
--
--     anabranch run examples/ad_campaigns_kafka.sql

-- A stream. Each message of the topic is a JSON object with these fields.
CREATE TABLE events (
    user_id    STRING,
    page_id    STRING,
    ad_id      STRING,
    ad_type    STRING,
    event_type STRING,
    event_time BIGINT,                                -- milliseconds since 1970
    ip_address STRING,
    ts AS TO_TIMESTAMP_LTZ(event_time, 3),            -- computed: the same as a timestamp
    WATERMARK FOR ts AS ts - INTERVAL '1' SECOND      -- ts is event time; records are at most 1 s out of order
) WITH (
    'connector' = 'kafka',
    'topic' = 'ad-events',
    'properties.bootstrap.servers' = '127.0.0.1:9092',
    'format' = 'json'
);

-- A table that ends: it is read once, at the start. Its connector knows the columns: ad_id and campaign_id.
CREATE TABLE campaigns WITH ('connector' = 'ad_campaigns');

-- The table of the results.
CREATE TABLE results (
    campaign_id  STRING,
    window_start TIMESTAMP_LTZ(3),
    window_end   TIMESTAMP_LTZ(3),
    views        BIGINT
) WITH (
    'connector' = 'kafka',
    'topic' = 'ad-results',
    'properties.bootstrap.servers' = '127.0.0.1:9092',
    'format' = 'json'
);

-- The job. It runs until you press Ctrl-C.
INSERT INTO results
SELECT c.campaign_id, window_start, window_end, COUNT(*) AS views
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) e
JOIN campaigns c ON e.ad_id = c.ad_id
WHERE e.event_type = 'view'
GROUP BY c.campaign_id, window_start, window_end;
