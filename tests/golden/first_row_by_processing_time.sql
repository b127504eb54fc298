-- The row of each key that comes first: only what all of its rows have in common is selected.
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, id BIGINT, n BIGINT, total DOUBLE) WITH ('connector' = 'collect');
INSERT INTO results
SELECT 'by arrival', item, 0, 0, 0 FROM (SELECT item, ROW_NUMBER() OVER (PARTITION BY item ORDER BY PROCTIME()) AS n FROM orders) WHERE n = 1;
INSERT INTO results
SELECT 'counted by arrival', CAST(NULL AS STRING), COUNT(*), 0, 0
FROM (SELECT item, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY PROCTIME()) AS n FROM (SELECT item, customer FROM orders UNION ALL SELECT item, customer FROM orders)) WHERE n = 1;
