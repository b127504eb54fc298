CREATE TABLE orders (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'a');
CREATE VIEW v AS SELECT id FROM orders; ALTER TABLE v SET ('a' = 'b');
