CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, price DOUBLE, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE pages (page STRING, section STRING) WITH ('connector' = 'filesystem');
CREATE FUNCTION net(price DOUBLE, `rate` DOUBLE) RETURNS DOUBLE RETURN price / (1 + rate);
CREATE TEMPORARY FUNCTION IF NOT EXISTS section(page STRING) RETURNS STRING RETURN COALESCE(SPLIT_INDEX(page, '/', 1), 'none');
CREATE FUNCTION IF NOT EXISTS section(page BIGINT) RETURNS STRING RETURN 'never';
CREATE FUNCTION is_shop(page STRING) RETURNS BOOLEAN RETURN Section(page) = 'shop' AND page SIMILAR TO '/shop/%';
CREATE FUNCTION taxed(price DECIMAL(10, 2), country STRING) RETURNS DECIMAL(10, 2)
RETURN CAST(price / CASE country WHEN 'DE' THEN 1.19 WHEN 'FR' THEN 1.20 ELSE 1.00 END AS DECIMAL(10, 2));
CREATE FUNCTION answer() RETURNS INT RETURN 42;
CREATE FUNCTION next_day(t TIMESTAMP(3)) RETURNS TIMESTAMP(3) RETURN TIMESTAMPADD(DAY, 1, t);
CREATE FUNCTION clicks(ts BIGINT, id BIGINT) RETURNS BIGINT RETURN ts - id;
CREATE FUNCTION old(x BIGINT) RETURNS BIGINT RETURN x + 1;
CREATE VIEW v AS SELECT section(page) AS section, old(id) AS n, ts FROM clicks WHERE is_shop(page);
CREATE OR REPLACE FUNCTION OLD(x BIGINT) RETURNS BIGINT RETURN x + 2;
CREATE FUNCTION dropped(x BIGINT) RETURNS BIGINT RETURN old(x) * 10;
DROP FUNCTION old;
DROP FUNCTION IF EXISTS old;
CREATE TABLE expressions (a DOUBLE, b STRING, c INT, d TIMESTAMP(3), e BIGINT, f BIGINT) WITH ('connector' = 'print');
INSERT INTO expressions
SELECT net(price * amount, 0.19), section(page), ANSWER(), next_day(ts), clicks(id, amount), dropped(amount) FROM clicks
WHERE is_shop(page) OR dropped(x => id + 1) > 7;
CREATE TABLE windows (section STRING, total DOUBLE, most BIGINT) WITH ('connector' = 'print');
INSERT INTO windows
SELECT section(page), net(SUM(price), 0.07), MAX(dropped(id)) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY section(page), window_start, window_end HAVING dropped(COUNT(*)) > 100;
CREATE TABLE sections (section STRING, n BIGINT) WITH ('connector' = 'print');
INSERT INTO sections SELECT v.section, n FROM v JOIN pages p ON section(p.page) = v.section
WHERE v.section IN (SELECT section(section) FROM pages WHERE is_shop(page));
CREATE TABLE invoices (total DECIMAL(10, 2)) WITH ('connector' = 'print');
INSERT INTO invoices SELECT taxed(CAST(price AS DECIMAL(10, 2)), page) FROM clicks WHERE taxed(country => 'DE', price => amount) > 100;
SHOW USER FUNCTIONS;
SHOW CREATE FUNCTION Next_Day;
EXPLAIN SELECT net(price, 0.19) AS net FROM clicks WHERE dropped(id) > 7;
