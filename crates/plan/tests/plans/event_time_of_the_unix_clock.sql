-- The clock of an event time is read once for a row, by the source.
CREATE TABLE orders (id BIGINT, ts AS TO_TIMESTAMP(FROM_UNIXTIME(UNIX_TIMESTAMP())), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE out (s TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');
INSERT INTO out SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
