CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE pages (page STRING, since TIMESTAMP(3), WATERMARK FOR since AS since) WITH ('connector' = 'filesystem');
CREATE TABLE results (page STRING, n BIGINT) WITH ('connector' = 'print');
INSERT INTO results
SELECT page, COUNT(*) FROM TABLE(TUMBLE(
  (SELECT c.page, c.ts, p.since FROM clicks c JOIN pages p ON c.page = p.page), DESCRIPTOR(since), INTERVAL '10' SECOND))
GROUP BY page, window_start, window_end;
