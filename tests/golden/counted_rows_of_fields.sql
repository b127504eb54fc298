-- A reader that reads no column beside one that reads fields of the only columns.
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE events (bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING>)
WITH ('connector' = 'nexmark', 'events.num' = '500', 'first-event.rate' = '100', 'next-event.rate' = '100', 'seed' = '3');
CREATE TABLE results (what STRING, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'all', COUNT(*) FROM events;
INSERT INTO results SELECT 'highest', MAX(bid.price) FROM events;
INSERT INTO results SELECT 'bids', COUNT(bid.bidder) FROM events WHERE bid.price > 1000;
