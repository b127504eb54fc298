CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE pages (page STRING, since TIMESTAMP(3), WATERMARK FOR since AS since) WITH ('connector' = 'filesystem');
CREATE TABLE results (page STRING, n BIGINT) WITH ('connector' = 'print');
CREATE VIEW counts AS SELECT page, window_time AS earlier
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY page, window_start, window_end, window_time;
CREATE VIEW sums AS SELECT page, earlier
FROM TABLE(TUMBLE(TABLE counts, DESCRIPTOR(earlier), INTERVAL '1' MINUTE)) GROUP BY page, earlier, window_start, window_end;
INSERT INTO results SELECT page, COUNT(*) FROM TABLE(TUMBLE(TABLE sums, DESCRIPTOR(earlier), INTERVAL '10' SECOND))
GROUP BY page, window_start, window_end;
