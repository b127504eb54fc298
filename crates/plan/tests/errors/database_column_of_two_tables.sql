CREATE DATABASE shop; CREATE TABLE orders (id INT) WITH ('connector' = 'kafka', 'topic' = 'a'); CREATE TABLE shop.orders LIKE orders; CREATE TABLE out (id INT) WITH ('connector' = 'print');
INSERT INTO out SELECT id FROM shop.orders WHERE EXISTS (SELECT 1 FROM orders WHERE orders.id = shop.orders.id);
