-- What is only shown may have another value when a row is taken back.
CREATE TABLE orders (id BIGINT, k STRING) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE shown (k STRING, n BIGINT, at TIMESTAMP_LTZ(3), u STRING) WITH ('connector' = 'print');
INSERT INTO shown SELECT k, COUNT(*), NOW(), UUID() FROM orders GROUP BY k;
