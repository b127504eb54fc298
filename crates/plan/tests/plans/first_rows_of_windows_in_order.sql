-- First rows of windows come when these end, so they are in the order of their time at the end of the table only.
CREATE TABLE t (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem');
CREATE TABLE out (v BIGINT) WITH ('connector' = 'print');
CREATE VIEW most AS SELECT k, v, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) AS n
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))) WHERE n <= 3;
INSERT INTO out SELECT v FROM most ORDER BY ts;
