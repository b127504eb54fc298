-- A job that takes all it gets: rows as fast as they are processed, hashed and counted by key. Runs beside steady.sql.
SET 'job-name' = 'greedy';

CREATE TABLE numbers (
    k INT,
    v BIGINT,
    ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'datagen',
    'rows-per-second' = 'unlimited',
    'seed' = '2',
    'fields.k.min' = '0',
    'fields.k.max' = '999',
    'fields.v.min' = '0',
    'fields.v.max' = '1000000000'
);

CREATE TABLE sums (k INT, window_end TIMESTAMP(3), rows_counted BIGINT, total BIGINT) WITH ('connector' = 'blackhole');

INSERT INTO sums
SELECT k, window_end, COUNT(*), SUM(v)
FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY k, window_start, window_end;
