CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE once (id BIGINT, page STRING) WITH ('connector' = 'print');
CREATE TABLE updated (id BIGINT, page STRING, PRIMARY KEY (page) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
SET 'table.exec.state.ttl' = '1 h';
INSERT INTO once SELECT id, page FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY ts) AS n FROM clicks) WHERE n = 1 AND id > 3;
INSERT INTO once SELECT id, page FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY pt) AS n FROM clicks) WHERE n < 2;
INSERT INTO updated SELECT id, page FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY ts, id) AS n FROM clicks) WHERE n = 1;
INSERT INTO updated SELECT id, page FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY ts DESC) AS n FROM clicks) WHERE n = 1;
-- Each window of processing time has a first row by event time.
INSERT INTO once SELECT id, page FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, page ORDER BY ts) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(pt), INTERVAL '5' SECOND))
) WHERE n = 1;
