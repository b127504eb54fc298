CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE pages (page STRING, since TIMESTAMP(3), WATERMARK FOR since AS since) WITH ('connector' = 'filesystem');
CREATE TABLE results (page STRING, n BIGINT) WITH ('connector' = 'print');
CREATE VIEW joined AS SELECT p.since, c.page, c.ts AS at FROM pages p JOIN clicks c ON c.page = p.page WHERE c.page <> '';
CREATE VIEW counts AS SELECT page, window_time AS closed
FROM TABLE(TUMBLE(TABLE joined, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY page, window_start, window_end, window_time;
INSERT INTO results
SELECT page, COUNT(*) FROM TABLE(TUMBLE((SELECT page, closed FROM counts UNION ALL SELECT page, closed FROM counts),
  DESCRIPTOR(closed), INTERVAL '1' MINUTE))
GROUP BY page, window_start, window_end;
