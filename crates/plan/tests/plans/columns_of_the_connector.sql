-- The connector knows the columns; the declaration adds a watermark and a computed column.
CREATE TABLE bids (minute AS DATE_TRUNC('minute', `dateTime`), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '1' SECOND) WITH ('connector' = 'timed');
DESCRIBE bids;
CREATE TABLE out (minute TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');
INSERT INTO out SELECT minute, COUNT(*) FROM TABLE(HOP(TABLE bids, DESCRIPTOR(`dateTime`), INTERVAL '1' SECOND, INTERVAL '2' SECOND))
GROUP BY minute, window_start, window_end;
