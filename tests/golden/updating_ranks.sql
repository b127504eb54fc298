SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE auction (id BIGINT, seller BIGINT, category BIGINT, `dateTime` TIMESTAMP(3), expires TIMESTAMP(3)) WITH ('connector' = 'nexmark', 'table' = 'auction', 'number-of-rows' = '2500', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3)) WITH ('connector' = 'nexmark', 'table' = 'bid', 'number-of-rows' = '2500', 'seed' = '7', 'rows-per-second' = 'unlimited', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE results (what STRING, k BIGINT, n BIGINT, m BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'last bid', bidder, auction, price FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS rank_number FROM bid) WHERE rank_number <= 1 AND bidder % 5 = 0;
INSERT INTO results SELECT 'highest', auction, rank_number, price FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid) WHERE rank_number <= 3 AND auction % 4 = 0;
INSERT INTO results SELECT 'of all', 0, auction, price FROM
  (SELECT auction, price, ROW_NUMBER() OVER (ORDER BY price DESC, auction) AS n FROM bid) WHERE 10 > n;
INSERT INTO results SELECT 'most bids', category, auction, bids FROM
  (SELECT category, auction, bids, ROW_NUMBER() OVER (PARTITION BY category ORDER BY bids DESC, auction ASC) AS n FROM
    (SELECT a.category, b.auction, COUNT(*) AS bids FROM bid b JOIN auction a ON a.id = b.auction GROUP BY a.category, b.auction)) WHERE n <= 2;
INSERT INTO results SELECT 'winning', category, COUNT(*), SUM(price) FROM
  (SELECT a.id, a.category, b.price, ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`dateTime` ASC) AS n
   FROM auction a, bid b WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires) WHERE n = 1 GROUP BY category;
