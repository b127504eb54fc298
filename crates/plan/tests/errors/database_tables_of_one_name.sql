CREATE DATABASE shop; CREATE TABLE orders (id INT) WITH ('connector' = 'kafka', 'topic' = 'a'); CREATE TABLE shop.orders LIKE orders; CREATE TABLE out (id INT) WITH ('connector' = 'print');
INSERT INTO out SELECT 1 FROM shop.orders JOIN orders ON TRUE;
