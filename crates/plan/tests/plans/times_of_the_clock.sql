-- An event time that the clock gives, one that is computed of two columns twice, the last row by PROCTIME(), and the clock in updated rows of a table
-- that keeps the latest row of each key.
CREATE TABLE visits (page STRING, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'stream');
CREATE TABLE calls (id INT, a BIGINT, b BIGINT, ts AS COALESCE(TO_TIMESTAMP_LTZ(a, 3), TO_TIMESTAMP_LTZ(b, 3)), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'stream');
CREATE TABLE results (what STRING, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE latest (page STRING, n BIGINT, seen TIMESTAMP_LTZ(3), PRIMARY KEY (page) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
INSERT INTO results SELECT page, COUNT(*) FROM visits GROUP BY page, HOP(ts, INTERVAL '3' SECOND, INTERVAL '10' SECOND);
INSERT INTO results SELECT 'calls', COUNT(*) FROM TABLE(TUMBLE(TABLE calls, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start;
INSERT INTO results SELECT 'last', a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY PROCTIME() DESC) AS n FROM calls) WHERE n = 1;
INSERT INTO latest SELECT page, COUNT(*), CURRENT_TIMESTAMP FROM visits GROUP BY page ON CONFLICT DO DEDUPLICATE;
