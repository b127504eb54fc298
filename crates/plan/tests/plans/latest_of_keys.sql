-- The key of a table that does not identify the rows of the query: it has the latest of them. Orders with what they refer to, as changes of both come.
CREATE TABLE products (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'changes');
CREATE TABLE orders (order_id INT, product_id INT, price DECIMAL(10, 2), PRIMARY KEY (order_id) NOT ENFORCED) WITH ('connector' = 'changes');
CREATE TABLE enriched (order_id INT, product_id INT, price DECIMAL(10, 2), name STRING, PRIMARY KEY (order_id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
CREATE TABLE counts (n BIGINT, name STRING, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
CREATE TABLE names (name STRING, PRIMARY KEY (name) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
INSERT INTO enriched SELECT o.order_id, o.product_id, o.price, p.name FROM orders AS o LEFT JOIN products AS p ON o.product_id = p.id;
INSERT INTO counts SELECT COUNT(*), name FROM products GROUP BY name ON CONFLICT DO DEDUPLICATE;
INSERT INTO names SELECT name FROM products;
