-- The event times of a pair are a bounded length apart: rows are forgotten when nothing that matches them can follow, rows without a match
-- appear then, and event time goes on through the join.
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE person (id BIGINT, state STRING, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '0.010' SECOND) WITH ('connector' = 'nexmark', 'table' = 'person', 'number-of-rows' = '20000', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE auction (id BIGINT, seller BIGINT, category BIGINT, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '0.010' SECOND) WITH ('connector' = 'nexmark', 'table' = 'auction', 'number-of-rows' = '20000', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '0.010' SECOND) WITH ('connector' = 'nexmark', 'table' = 'bid', 'number-of-rows' = '20000', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE results (what STRING, starts TIMESTAMP(3), k BIGINT, n BIGINT) WITH ('connector' = 'collect');

-- The highest bids of each window: the end of a window bounds the times of its bids.
INSERT INTO results
SELECT 'highest', b.`dateTime`, b.auction, b.price
FROM bid b JOIN (SELECT MAX(price) AS most, window_end AS ends FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '0.1' SECOND)) GROUP BY window_start, window_end) m
ON b.price = m.most
WHERE b.`dateTime` BETWEEN m.ends - INTERVAL '0.1' SECOND AND m.ends;

-- Auctions with and without bids in their first 50 ms, counted in windows of the joined rows.
INSERT INTO results
SELECT 'early bids', window_start, COUNT(*), COUNT(bidder)
FROM TABLE(TUMBLE((SELECT a.`dateTime` AS ts, b.bidder FROM auction a LEFT JOIN bid b ON a.id = b.auction AND b.`dateTime` >= a.`dateTime` AND b.`dateTime` < a.`dateTime` + INTERVAL '0.050' SECOND), DESCRIPTOR(ts), INTERVAL '0.1' SECOND))
GROUP BY window_start, window_end;

-- Both sides keep their rows until the end of the window.
CREATE VIEW sellers AS SELECT seller, COUNT(*) AS n, window_start, window_end FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '0.1' SECOND)) GROUP BY seller, window_start, window_end;
CREATE VIEW comers AS SELECT id, window_start, window_end FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '0.1' SECOND));
INSERT INTO results SELECT 'new seller', p.window_start, p.id, s.n FROM comers p JOIN sellers s ON p.id = s.seller AND p.window_start = s.window_start AND p.window_end = s.window_end WHERE p.id % 50 = 0;
INSERT INTO results SELECT 'full', COALESCE(p.window_start, s.window_start), COUNT(p.id), COUNT(s.seller) FROM comers p FULL JOIN sellers s ON p.id = s.seller AND p.window_start = s.window_start AND p.window_end = s.window_end GROUP BY COALESCE(p.window_start, s.window_start);
INSERT INTO results SELECT 'sells nothing', window_start, id, 0 FROM comers p WHERE id % 50 = 0 AND NOT EXISTS (SELECT 1 FROM sellers s WHERE p.id = s.seller AND p.window_start = s.window_start AND p.window_end = s.window_end);
INSERT INTO results SELECT 'sells', window_start, id, 0 FROM comers p WHERE id % 50 = 1 AND EXISTS (SELECT 1 FROM sellers s WHERE p.id = s.seller AND p.window_start = s.window_start AND p.window_end = s.window_end);
