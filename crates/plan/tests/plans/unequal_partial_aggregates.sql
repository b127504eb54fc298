CREATE TABLE clicks (page STRING, user_id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (page STRING, n BIGINT) WITH ('connector' = 'print');
CREATE VIEW some_clicks AS SELECT * FROM clicks WHERE RANDOM() < 0.5;
CREATE VIEW counts AS SELECT page, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE some_clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end;
-- Each reference computes its expressions itself.
INSERT INTO out SELECT page, n FROM counts;
INSERT INTO out SELECT UPPER(page), n FROM counts;
