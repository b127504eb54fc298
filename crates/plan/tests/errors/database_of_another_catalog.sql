CREATE DATABASE shop; CREATE TABLE orders (id INT) WITH ('connector' = 'kafka', 'topic' = 'a'); CREATE TABLE shop.orders LIKE orders; CREATE TABLE out (id INT) WITH ('connector' = 'print');
CREATE CATALOG mine WITH ('type' = 'generic_in_memory'); USE CATALOG mine; INSERT INTO default_catalog.default_database.out SELECT id FROM shop.orders;
