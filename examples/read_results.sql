-- Prints what the query over Kafka has written to its topic so far: a separate reader, like any consumer.

CREATE TABLE topic (
    campaign_id  STRING,
    window_start TIMESTAMP_LTZ(3),
    window_end   TIMESTAMP_LTZ(3),
    views        BIGINT
) WITH (
    'connector' = 'kafka',
    'topic' = 'ad-results',
    'scan.bounded.mode' = 'latest-offset',   -- read what is there, then end
    'properties.bootstrap.servers' = '127.0.0.1:9092',
    'format' = 'json'
);

CREATE TABLE results (campaign_id STRING, window_start TIMESTAMP_LTZ(3), window_end TIMESTAMP_LTZ(3), views BIGINT)
WITH ('connector' = 'print');

INSERT INTO results SELECT * FROM topic;
