CREATE TABLE orders (a STRING, b INT) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE s (x ROW<a STRING>) WITH ('connector' = 'print');
INSERT INTO s SELECT CAST(ROW(a, b) AS ROW<a STRING>) FROM orders;
