-- Columns that several tables share.
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE VIEW a AS SELECT id AS k, item AS x, amount AS n FROM orders WHERE id < 6;
CREATE VIEW b AS SELECT id AS k, customer AS y FROM orders WHERE id > 2 AND id < 9;
CREATE VIEW c AS SELECT id AS k, price AS z, amount AS n FROM orders WHERE id > 4;
CREATE TABLE results (what STRING, k BIGINT, x STRING, y STRING, z DOUBLE, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'full', k, x, y, z, a.n FROM a FULL JOIN b USING (k) FULL JOIN c USING (k);
INSERT INTO results SELECT 'right', k, x, y, z, c.n FROM a JOIN b USING (k) RIGHT JOIN c USING (k) WHERE k > 3;
INSERT INTO results SELECT 'grouped', k, MAX(x), MAX(y), SUM(z), COUNT(*) FROM a LEFT JOIN b USING (k) FULL JOIN c USING (k) GROUP BY k;
INSERT INTO results SELECT 'all', * FROM (SELECT * FROM (SELECT k, x FROM a) AS p FULL JOIN b USING (k) FULL JOIN c USING (k)) AS q;
INSERT INTO results SELECT 'two columns', k, x, CAST(NULL AS STRING), z, n FROM a FULL JOIN c USING (k, n);
INSERT INTO results SELECT 'by condition', k, x, y, z, c.n FROM a FULL JOIN b USING (k) LEFT JOIN c ON a.n = c.n;
INSERT INTO results SELECT 'both', k, x, y, a.k, COALESCE(a.k, 0) * 100 + k FROM a FULL JOIN b USING (k);
INSERT INTO results SELECT 'most of each', k, MAX(x), NULL, SUM(a.k), CASE WHEN MAX(a.k) = k THEN 1 WHEN MAX(a.k) IS NULL THEN 0 END FROM a FULL JOIN b USING (k) GROUP BY k;
INSERT INTO results SELECT 'natural', k, x, y, NULL, n FROM (SELECT k, x, n FROM a) AS p NATURAL RIGHT JOIN b WHERE k IN (SELECT k FROM c) AND p.n IS NOT NULL;
