CREATE TABLE rates (k STRING, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'rates');
CREATE TABLE orders (id INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE out (id INT, rate INT) WITH ('connector' = 'print');
CREATE VIEW latest AS SELECT k, rate, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM rates) WHERE n = 1;
CREATE VIEW versions AS SELECT k, rate, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM latest) WHERE n = 1;
INSERT INTO out SELECT o.id, r.rate FROM orders o LEFT JOIN versions FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k;
