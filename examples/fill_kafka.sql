-- Fills the topic `ad-events` with advertisement events, as JSON, until it is stopped. `make demo-kafka` runs this
-- in a process of its own beside examples/ad_campaigns_kafka.sql, which reads the topic.

CREATE TABLE events (
  user_id    STRING,
  page_id    STRING,
  ad_id      STRING,
  ad_type    STRING,
  event_type STRING,
  event_time BIGINT,          -- milliseconds since 1970
  ip_address STRING
) WITH (
  'connector' = 'ad_events',
  'rows-per-second' = '100000'
);

-- Columns become fields of a JSON object, one object per message.
CREATE TABLE topic (
  user_id    STRING,
  page_id    STRING,
  ad_id      STRING,
  ad_type    STRING,
  event_type STRING,
  event_time BIGINT,
  ip_address STRING
) WITH (
  'connector' = 'kafka',
  'topic' = 'ad-events',
  'sink.topic.partitions' = '4',   -- of the topic, if it does not exist
  'properties.bootstrap.servers' = '127.0.0.1:9092',
  'format' = 'json'
);

INSERT INTO topic SELECT user_id, page_id, ad_id, ad_type, event_type, event_time, ip_address FROM events;
