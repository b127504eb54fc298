CREATE TABLE events (bid ROW<auction BIGINT, price BIGINT>, person ROW<id BIGINT, name STRING>, at TIMESTAMP(3)) WITH ('connector' = 'nexmark');
CREATE TABLE bids (bid ROW<auction BIGINT, price BIGINT>) WITH ('connector' = 'nexmark');
CREATE TABLE results (n BIGINT) WITH ('connector' = 'print');
INSERT INTO results SELECT COUNT(*) FROM bids;
INSERT INTO results SELECT MAX(bid.price) FROM bids;
INSERT INTO results SELECT bid.auction FROM bids WHERE bid.price > 10;
