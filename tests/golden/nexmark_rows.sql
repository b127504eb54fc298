-- One table of all events with rows, of which only some fields are read, and the whole rows of it.
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE events (event_type INT,
  person ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, `dateTime` TIMESTAMP(3), extra STRING>,
  auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING>,
  `dateTime` AS CASE WHEN event_type = 0 THEN person.`dateTime` WHEN event_type = 1 THEN auction.`dateTime` ELSE bid.`dateTime` END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND)
WITH ('connector' = 'nexmark', 'events.num' = '3000', 'first-event.rate' = '100', 'next-event.rate' = '100', 'seed' = '3');
CREATE VIEW bid AS SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`, bid.extra FROM events WHERE event_type = 2;
CREATE VIEW auction AS SELECT auction.id, auction.seller, auction.category, `dateTime`, auction.expires FROM events WHERE event_type = 1;
CREATE TABLE results (what STRING, k STRING, n BIGINT, m BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'window', CAST(window_start AS STRING), COUNT(*), MAX(price) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
INSERT INTO results SELECT 'channels', channel, COUNT(*), AVG(price) FROM bid GROUP BY channel HAVING COUNT(*) > 3;
INSERT INTO results SELECT 'winning', CAST(category AS STRING), COUNT(*), AVG(final) FROM (SELECT a.id, a.category, MAX(b.price) AS final FROM auction a, bid b WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires GROUP BY a.id, a.category) GROUP BY category;
INSERT INTO results SELECT 'by kind', CAST(event_type AS STRING), COUNT(person.id), COUNT(bid.price) FROM events GROUP BY event_type;
INSERT INTO results SELECT 'whole', auction.itemName, CARDINALITY(ARRAY[auction, auction]), auction.id FROM events WHERE auction IS NOT NULL AND event_type = 1 AND auction.id < 1004;
INSERT INTO results SELECT 'urls', url, 0, auction FROM bid WHERE auction = 1003 AND channel LIKE 'channel-9%';
