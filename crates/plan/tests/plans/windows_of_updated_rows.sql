-- Windows of rows that are updated: each is emitted once, when it ends, and its columns are event times.
CREATE TABLE people (id INT, city STRING, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'changes');
CREATE TABLE versions (id INT, city STRING, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts) WITH ('connector' = 'upsert-kafka');
CREATE TABLE out (s TIMESTAMP(3), city STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
CREATE TABLE changing (s TIMESTAMP(3), city STRING, n BIGINT, PRIMARY KEY (s, city) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
INSERT INTO out SELECT window_start, city, COUNT(*)
  FROM TABLE(TUMBLE(TABLE people, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, city;
-- Windows of the results of windows, and the hours of instants.
INSERT INTO out SELECT TUMBLE_START(t, INTERVAL '1' HOUR), city, MAX(n) FROM (
  SELECT HOP_ROWTIME(ts, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE) AS t, city, COUNT(DISTINCT id) AS n
  FROM versions GROUP BY city, HOP(ts, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE))
GROUP BY city, TUMBLE(t, INTERVAL '1' HOUR);
-- Sessions keep all rows.
INSERT INTO out SELECT window_start, city, COUNT(*)
  FROM TABLE(SESSION(TABLE people PARTITION BY city, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, city;
-- Without their own groups, windows are columns like others.
INSERT INTO changing SELECT s, city, n FROM (
  SELECT window_start AS s, city, id, ROW_NUMBER() OVER (PARTITION BY window_start, city ORDER BY id DESC) AS n
  FROM TABLE(TUMBLE(TABLE people, DESCRIPTOR(ts), INTERVAL '1' MINUTE))) WHERE n = 1;
