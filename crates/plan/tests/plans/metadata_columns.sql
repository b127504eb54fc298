-- Event time is that of the records. The column of an unused key is not decoded, and virtual columns are not written; others are.
CREATE TABLE clicks (
  ts TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'timestamp' VIRTUAL,
  page STRING,
  `offset` BIGINT METADATA VIRTUAL,
  part BIGINT METADATA FROM 'partition' VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE copies (page STRING, part INT METADATA FROM 'partition' VIRTUAL, n BIGINT)
  WITH ('connector' = 'kafka', 'topic' = 'copies');
INSERT INTO copies
SELECT page, MAX(part) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY page, window_start, window_end;
CREATE TABLE timed (page STRING, at TIMESTAMP(3) METADATA FROM 'timestamp', part INT METADATA FROM 'partition' VIRTUAL, n BIGINT)
  WITH ('connector' = 'kafka', 'topic' = 'timed');
INSERT INTO timed
SELECT page, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY page, window_start, window_end;
