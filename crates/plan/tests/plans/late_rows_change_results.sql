-- Results of windows come at their end, and late rows change them for an hour.
SET 'table.exec.emit.allow-lateness' = '1 h';

CREATE TABLE clicks (
  page STRING,
  user_id BIGINT,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');

CREATE TABLE views (page STRING, minute TIMESTAMP(3), views BIGINT, users BIGINT, PRIMARY KEY (page, minute) NOT ENFORCED) WITH ('connector' = 'blackhole');

INSERT INTO views SELECT page, window_start, COUNT(*), COUNT(DISTINCT user_id)
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end;

-- A condition on the window's columns comes before the aggregation.
INSERT INTO views SELECT page, window_start, COUNT(*), COUNT(*)
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) WHERE window_start > TIMESTAMP '2026-01-01 00:00:00' GROUP BY page, window_start, window_end;
