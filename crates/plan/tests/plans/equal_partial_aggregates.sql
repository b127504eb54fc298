CREATE TABLE clicks (page STRING, user_id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (page STRING, n BIGINT) WITH ('connector' = 'print');
CREATE VIEW counts AS SELECT page, COUNT(*) AS n, window_start, window_end
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end;
-- Three readers of the view: their partial aggregates are one stage, which has the source.
INSERT INTO out SELECT page, n FROM counts;
INSERT INTO out SELECT page, MAX(n) FROM counts GROUP BY page, window_start, window_end;
INSERT INTO out SELECT UPPER(page), n FROM counts WHERE n > 10;
