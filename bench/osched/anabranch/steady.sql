-- A job of 1,000 rows/s that counts and sums by key in windows of 100 ms. It needs little of a core; what matters is how late its
-- results are. Runs beside greedy.sql.
SET 'job-name' = 'steady';

CREATE TABLE readings (
    sensor INT,
    amount DOUBLE,
    ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'datagen',
    'rows-per-second' = '1000',
    'seed' = '1',
    'fields.sensor.min' = '0',
    'fields.sensor.max' = '15',
    'fields.amount.max' = '100'
);

CREATE TABLE sums (sensor INT, window_end TIMESTAMP(3), rows_counted BIGINT, total DOUBLE) WITH ('connector' = 'blackhole');

INSERT INTO sums
SELECT sensor, window_end, COUNT(*), SUM(amount)
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))
GROUP BY sensor, window_start, window_end;
