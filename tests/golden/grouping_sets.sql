CREATE TABLE bid (auction BIGINT NOT NULL, bidder BIGINT, price BIGINT, channel STRING, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND) WITH ('connector' = 'nexmark', 'table' = 'bid', 'number-of-rows' = '500', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE VIEW shares AS SELECT auction % 3 AS a, NULLIF(bidder % 4, 2) AS b, price, `dateTime` FROM bid;
CREATE TABLE results (what STRING, a BIGINT, b BIGINT, n BIGINT, most BIGINT, of BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'sets', a, b, COUNT(*), MAX(price), GROUPING_ID(a, b) FROM shares GROUP BY GROUPING SETS ((a, b), (b), ());
INSERT INTO results SELECT 'cube', a, b + 1, COUNT(DISTINCT price), SUM(price) FILTER (WHERE a = 1), GROUPING(a) FROM shares GROUP BY CUBE (a, b + 1) HAVING GROUPING(a) = 0;
INSERT INTO results SELECT 'rollup', a, b, COUNT(b), MIN(a), GROUPING(b, a) FROM shares GROUP BY ROLLUP (a, b);
INSERT INTO results SELECT 'both', a, b, COUNT(*), 0, 0 FROM shares GROUP BY a, ROLLUP (b);
INSERT INTO results SELECT 'twice', a, b, COUNT(*), 0, GROUPING_ID(a, b) FROM shares GROUP BY GROUPING SETS ((a), (b), (a));
INSERT INTO results SELECT 'windows', a, EXTRACT(SECOND FROM window_start), COUNT(*), MAX(price), GROUPING(a) FROM TABLE(TUMBLE(TABLE shares, DESCRIPTOR(`dateTime`), INTERVAL '1' SECOND)) WHERE b = 1 GROUP BY window_start, window_end, GROUPING SETS ((a), ());
