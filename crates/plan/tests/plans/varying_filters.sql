CREATE TABLE clicks (page STRING, user_id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (page STRING, n BIGINT) WITH ('connector' = 'print');
CREATE VIEW counts AS SELECT page, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end;
-- Of the results, not of the rows that are counted; the other condition is asked before.
INSERT INTO out SELECT page, n FROM counts WHERE RANDOM() < 0.5 AND page <> 'home';
-- Of the rows.
INSERT INTO out SELECT page, user_id FROM clicks WHERE RANDOM() < 0.5 AND page <> 'home';
-- Of pairs.
INSERT INTO out SELECT a.page, b.user_id FROM clicks AS a JOIN clicks AS b ON a.user_id = b.user_id WHERE RANDOM() < 0.5;
