CREATE TABLE readings (n BIGINT, sensor STRING, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/readings', 'format' = 'json');
CREATE TABLE results (n BIGINT, never BOOLEAN) WITH ('connector' = 'collect');
CREATE VIEW with_watermark AS SELECT *, CURRENT_WATERMARK(at) AS w FROM readings;
INSERT INTO results SELECT n, COALESCE(w > TIMESTAMP '2026-01-01 10:01:08' OR w < TIMESTAMP '2026-01-01 09:59:58.999', FALSE) FROM with_watermark WHERE w IS NULL OR w IS NOT NULL AND n >= 0;
INSERT INTO results SELECT n, FALSE FROM readings WHERE at < TIMESTAMP '2026-01-01 09:00:00' AND at <= CURRENT_WATERMARK(at);
