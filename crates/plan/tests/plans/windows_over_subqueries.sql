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
CREATE TABLE out (n BIGINT, d BIGINT) WITH ('connector' = 'print');
INSERT INTO out WITH x AS (SELECT *, id * 2 AS d FROM clicks WHERE id > 1)
SELECT COUNT(*), SUM(d) FROM TABLE(TUMBLE(TABLE x, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO out SELECT COUNT(*), 0 FROM TABLE(TUMBLE((SELECT ts FROM clicks), DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
CREATE VIEW joined AS SELECT c.ts, r.rate, c.page FROM clicks c JOIN rates r ON c.page = r.currency;
INSERT INTO out SELECT COUNT(*), MAX(CAST(rate AS BIGINT)) FROM TABLE(TUMBLE(TABLE joined, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end;
