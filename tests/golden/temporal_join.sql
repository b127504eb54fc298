-- Rows with the version of another table's row that is valid at their event time: of a history, of a view of its latest rows, where versions may
-- end, and before a window.
CREATE TABLE rates (currency STRING, rate DECIMAL(10, 2), ts TIMESTAMP(3), there BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '20' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '$DATA/rates.csv', 'format' = 'csv');
CREATE TABLE conversions (id BIGINT, currency STRING, amount BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '$DATA/conversions.csv', 'format' = 'csv');
CREATE VIEW latest AS SELECT currency, rate, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY currency ORDER BY ts DESC) AS n FROM rates) WHERE n = 1 AND there;
CREATE TABLE results (what STRING, id BIGINT, currency STRING, n DECIMAL(10, 2), since TIMESTAMP(3)) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'history', c.id, c.currency, c.amount * r.rate, r.ts FROM conversions AS c JOIN rates FOR SYSTEM_TIME AS OF c.ts AS r ON c.currency = r.currency;
INSERT INTO results SELECT 'latest', c.id, c.currency, c.amount * r.rate, r.ts FROM conversions AS c LEFT JOIN latest FOR SYSTEM_TIME AS OF c.ts AS r ON r.currency = c.currency;
INSERT INTO results SELECT 'condition', c.id, r.currency, r.rate, NULL FROM conversions AS c LEFT JOIN latest FOR SYSTEM_TIME AS OF c.ts AS r ON c.currency = r.currency AND c.amount > 40 AND r.rate < 1.3;
INSERT INTO results SELECT 'where', c.id, c.currency, r.rate, NULL FROM conversions AS c JOIN latest FOR SYSTEM_TIME AS OF c.ts AS r ON c.currency = r.currency WHERE c.amount > 40 AND r.rate < 1.3;
CREATE VIEW converted AS SELECT c.id, c.currency, c.ts, c.amount * r.rate AS dollars FROM conversions AS c JOIN rates FOR SYSTEM_TIME AS OF c.ts AS r ON c.currency = r.currency;
INSERT INTO results SELECT 'windows', COUNT(*), currency, SUM(dollars), window_start FROM TABLE(TUMBLE(TABLE converted, DESCRIPTOR(ts), INTERVAL '2' HOUR)) GROUP BY window_start, window_end, currency;
INSERT INTO results SELECT 'two', c.id, c.currency, r.rate + d.rate, d.ts FROM conversions AS c JOIN rates FOR SYSTEM_TIME AS OF c.ts AS r ON c.currency = r.currency JOIN latest FOR SYSTEM_TIME AS OF c.ts AS d ON d.currency = c.currency AND d.ts = r.ts;
