-- Does every entity follow the rules? Events of sessions come from Kafka; violations go to one topic, counts to another.
--
-- A session is a login, any number of uses of the service, a logout, within one window. Its events are numbered by
-- their sender: so a step that is missing, or that counts twice, is a violation too. With checkpoints the job may be
-- killed at any moment, and there will be no false alert:
--
--     anabranch run examples/session_rules_kafka.sql --set checkpoint-directory=/var/lib/anabranch/session-rules

CREATE TABLE events (
    entity     STRING,
    step       BIGINT,
    kind       STRING,                                -- login, use, logout
    event_time BIGINT,                                -- milliseconds since 1970
    ts AS TO_TIMESTAMP_LTZ(event_time, 3),
    WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH (
    'connector' = 'kafka',
    'topic' = 'session-events',
    'properties.bootstrap.servers' = '127.0.0.1:9092',
    'format' = 'json'
);

CREATE TABLE alerts (
    entity       STRING,
    window_start TIMESTAMP_LTZ(3),
    violation    STRING
) WITH (
    'connector' = 'kafka',
    'topic' = 'session-alerts',
    'properties.bootstrap.servers' = '127.0.0.1:9092',
    'format' = 'json'
);

CREATE TABLE counts (
    entity       STRING,
    window_start TIMESTAMP_LTZ(3),
    events       BIGINT,
    uses         BIGINT
) WITH (
    'connector' = 'kafka',
    'topic' = 'session-counts',
    'properties.bootstrap.servers' = '127.0.0.1:9092',
    'format' = 'json'
);

CREATE VIEW sessions AS
SELECT
    entity,
    window_start,
    COUNT(*) AS events,
    COUNT(DISTINCT step) AS steps,
    MIN(step) AS first_step,
    MAX(step) AS last_step,
    COUNT(*) FILTER (WHERE kind = 'use') AS uses,
    MIN(event_time) FILTER (WHERE kind = 'use') AS first_use,
    MAX(event_time) FILTER (WHERE kind = 'use') AS last_use,
    MIN(event_time) FILTER (WHERE kind = 'login') AS login,
    MAX(event_time) FILTER (WHERE kind = 'logout') AS logout
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY entity, window_start, window_end;

INSERT INTO alerts
SELECT entity, window_start, violation
FROM (
    SELECT
        entity,
        window_start,
        CASE
            WHEN steps < events THEN 'a step counts twice'
            WHEN first_step > 1 OR last_step - first_step + 1 > steps THEN 'a step is missing'
            WHEN login IS NULL OR first_use < login THEN 'use before login'
            WHEN logout IS NULL OR last_use > logout THEN 'use after logout'
        END AS violation
    FROM sessions
)
WHERE violation IS NOT NULL;

INSERT INTO counts
SELECT entity, window_start, events, uses FROM sessions;
