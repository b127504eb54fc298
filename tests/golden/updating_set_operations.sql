-- How often rows are on both sides, as they come; and some rows of updating results.
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT 'intersect', item, n FROM (SELECT item, MOD(id, 3) AS n FROM orders INTERSECT ALL SELECT item, amount FROM orders WHERE price > 2);
INSERT INTO results
SELECT 'except', item, n FROM (SELECT item, amount AS n FROM orders EXCEPT ALL SELECT item, MOD(id, 2) FROM orders);
INSERT INTO results
SELECT 'of groups', CAST(NULL AS STRING), n FROM (
  SELECT item, COUNT(*) AS n FROM orders GROUP BY item EXCEPT ALL (SELECT item, COUNT(*) FROM orders WHERE id > 3 GROUP BY item INTERSECT ALL SELECT item, 2 FROM orders));
INSERT INTO results
SELECT 'counted', CAST(NULL AS STRING), COUNT(*) FROM (SELECT customer FROM orders EXCEPT ALL SELECT customer FROM orders WHERE amount > 1);
INSERT INTO results
SELECT 'some groups', CAST(NULL AS STRING), COUNT(*) FROM (SELECT item, COUNT(*) AS n FROM orders GROUP BY item LIMIT 2);
INSERT INTO results
SELECT 'other groups', CAST(NULL AS STRING), COUNT(*) FROM (SELECT item, COUNT(*) AS n FROM orders GROUP BY item LIMIT 100 OFFSET 1);
