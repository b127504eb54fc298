CREATE TABLE people (id BIGINT, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'upsert-kafka');
CREATE TABLE out (n BIGINT) WITH ('connector' = 'print');
INSERT INTO out
SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE people, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
