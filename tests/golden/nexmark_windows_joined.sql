-- Results of windows joined with results of the same windows, over tables that end.
CREATE TABLE bids (auction BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '1' SECOND) WITH ('connector' = 'nexmark', 'table' = 'bid', 'number-of-rows' = '20000', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE persons (id BIGINT, name STRING, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '1' SECOND) WITH ('connector' = 'nexmark', 'table' = 'person', 'number-of-rows' = '20000', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE auctions (seller BIGINT, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '1' SECOND) WITH ('connector' = 'nexmark', 'table' = 'auction', 'number-of-rows' = '20000', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE results (what STRING, starts TIMESTAMP(3), id BIGINT, n BIGINT) WITH ('connector' = 'collect');

-- The auctions with the most bids of each window.
CREATE VIEW counts AS
SELECT auction, window_start AS starts, COUNT(*) AS n
FROM TABLE(HOP(TABLE bids, DESCRIPTOR(`dateTime`), INTERVAL '1' SECOND, INTERVAL '2' SECOND)) GROUP BY auction, window_start, window_end;
INSERT INTO results
SELECT 'hot', c.starts, c.auction, c.n
FROM counts c JOIN (SELECT starts, MAX(n) AS most FROM counts GROUP BY starts) m ON c.starts = m.starts AND c.n >= m.most;

-- Sellers that have come in the window of their auction.
INSERT INTO results
SELECT 'new seller', p.window_start, p.id, a.n
FROM (SELECT id, window_start, window_end FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(`dateTime`), INTERVAL '1' SECOND)) GROUP BY id, window_start, window_end) p
JOIN (SELECT seller, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(`dateTime`), INTERVAL '1' SECOND)) GROUP BY seller, window_start, window_end) a
ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end
WHERE MOD(p.id, 50) = 0;
