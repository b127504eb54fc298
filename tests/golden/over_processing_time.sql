-- Functions over the rows before each row, as rows come. The results do not depend on which of the files is read first.
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), pt AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, k STRING, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'range', item, COUNT(*) OVER (PARTITION BY item ORDER BY pt) FROM orders;
INSERT INTO results SELECT 'rows', item, COUNT(*) OVER (PARTITION BY item ORDER BY PROCTIME() ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM orders;
INSERT INTO results SELECT 'number', item, ROW_NUMBER() OVER (PARTITION BY item ORDER BY pt) FROM orders;
INSERT INTO results SELECT 'before', item, CASE WHEN LAG(id) OVER (PARTITION BY item ORDER BY pt) IS NULL THEN 1 ELSE 0 END FROM orders;
INSERT INTO results SELECT 'time', item, SIGN(COUNT(*) OVER (PARTITION BY item ORDER BY pt RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW)) FROM orders;
