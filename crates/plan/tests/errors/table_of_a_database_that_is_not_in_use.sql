CREATE DATABASE shop;
CREATE TABLE orders (id INT) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE out (id INT) WITH ('connector' = 'print');
USE shop;
INSERT INTO default_database.out SELECT id FROM orders;
