CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (n BIGINT, page STRING) WITH ('connector' = 'print');
CREATE TABLE t WITH ('connector' = 'print') AS SELECT aid FROM clicks MATCH_RECOGNIZE (ORDER BY ts MEASURES A.id AS aid PATTERN (A B) DEFINE A AS A.id > 1) AS m;
