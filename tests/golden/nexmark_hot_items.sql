CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '1' SECOND) WITH ('connector' = 'nexmark', 'table' = 'bid', 'number-of-rows' = '20000', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE results (auction BIGINT, window_start TIMESTAMP(3), bids BIGINT, best BIGINT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT auction, window_start, COUNT(*) AS bids, MAX(price) FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '1' SECOND, INTERVAL '2' SECOND))
GROUP BY auction, window_start, window_end HAVING COUNT(*) > 100;
