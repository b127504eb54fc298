CREATE TABLE orders (customer STRING, day DATE, n INT) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE s (x DOUBLE) WITH ('connector' = 'print');
INSERT INTO s SELECT AVG(day) FROM orders;
