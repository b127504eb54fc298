CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND) WITH ('connector' = 'nexmark', 'table' = 'bid', 'number-of-rows' = '1500', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, read_at AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, n BIGINT, seconds BIGINT, is_now BOOLEAN) WITH ('connector' = 'collect');
CREATE VIEW B AS SELECT *, PROCTIME() as p_time FROM bid WHERE price > 0;
CREATE VIEW counts AS
SELECT
    bidder,
    count(*) as bid_count,
    window_start AS starttime,
    window_end AS endtime
FROM TABLE(TUMBLE(TABLE B, DESCRIPTOR(p_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
INSERT INTO results SELECT 'windows', CAST(bidder % 7 AS STRING), SUM(bid_count), MIN(TIMESTAMPDIFF(SECOND, starttime, endtime)), MIN(endtime) > TIMESTAMP '2025-01-01 00:00:00' FROM counts GROUP BY bidder % 7;
INSERT INTO results SELECT 'group windows', item, SUM(n), MAX(TIMESTAMPDIFF(SECOND, starts, ends)), MIN(last) < MIN(ends)
FROM (SELECT item, COUNT(*) AS n, TUMBLE_START(o.read_at, INTERVAL '1' HOUR) AS starts, TUMBLE_END(o.read_at, INTERVAL '1' HOUR) AS ends, TUMBLE_PROCTIME(o.read_at, INTERVAL '1' HOUR) AS last FROM orders o GROUP BY item, TUMBLE(o.read_at, INTERVAL '1' HOUR)) GROUP BY item;
INSERT INTO results SELECT 'column', item, id, 0, read_at > TO_TIMESTAMP_LTZ(1700000000000, 3) AND PROCTIME() IS NOT NULL FROM orders WHERE id < 4;
INSERT INTO results SELECT 'beside event time', CAST(NULL AS STRING), COUNT(*), COUNT(DISTINCT price), MAX(p_time) > MIN(p_time) - INTERVAL '1' SECOND FROM TABLE(TUMBLE(TABLE B, DESCRIPTOR(`dateTime`), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
CREATE TABLE events (event_type INT, bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING>, p AS PROCTIME())
WITH ('connector' = 'nexmark', 'events.num' = '3000', 'first-event.rate' = '100', 'next-event.rate' = '100', 'seed' = '3');
INSERT INTO results SELECT 'fields', CAST(bidder % 2 AS STRING), COUNT(*), MAX(price), MIN(p) > TO_TIMESTAMP_LTZ(1700000000000, 3) FROM (SELECT bid.bidder AS bidder, bid.price AS price, p FROM events WHERE event_type = 2) GROUP BY bidder % 2;
