-- How many views did each advertising campaign get in every 10 seconds?
--
-- This is the advertising benchmark of Yahoo: a stream of ad events is filtered, joined with a table of
-- each ad's campaign, and counted by campaign in windows of event time. Generators make all of
-- its data, so it runs anywhere:
--
--     anabranch run examples/ad_campaigns.sql

-- A stream. The records are JSON objects with these fields, 100000 of them per second.
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
    'connector' = 'ad_events',
    'format' = 'json',
    'rows-per-second' = '100000'
);

-- A table that ends: it is read once, at the start. Its connector knows the columns: ad_id and campaign_id.
CREATE TABLE campaigns WITH ('connector' = 'ad_campaigns');

-- The table of the results.
CREATE TABLE results (
    campaign_id  STRING,
    window_start TIMESTAMP_LTZ(3),
    window_end   TIMESTAMP_LTZ(3),
    views        BIGINT
) WITH ('connector' = 'print');

-- The job. It runs until you press Ctrl-C.
INSERT INTO results
SELECT c.campaign_id, window_start, window_end, COUNT(*) AS views
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) e
JOIN campaigns c ON e.ad_id = c.ad_id
WHERE e.event_type = 'view'
GROUP BY c.campaign_id, window_start, window_end;
