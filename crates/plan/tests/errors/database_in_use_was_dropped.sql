CREATE DATABASE shop;
USE shop;
DROP DATABASE shop;
CREATE TABLE orders (id INT) WITH ('connector' = 'kafka', 'topic' = 'orders');
