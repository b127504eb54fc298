CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT) WITH ('connector' = 'kafka', 'topic' = 'orders');
DROP DATABASE shop;
