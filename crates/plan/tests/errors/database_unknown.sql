CREATE DATABASE shop;
CREATE TABLE shops.orders (id INT) WITH ('connector' = 'kafka', 'topic' = 'orders');
