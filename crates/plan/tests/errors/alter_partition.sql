CREATE TABLE orders (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'a');
ALTER TABLE orders COMPACT;
