-- Subqueries of every form, at any place of an expression, with any condition.
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE VIEW a AS SELECT id, item, NULLIF(amount, 3) AS n FROM orders WHERE id < 8;
CREATE VIEW b AS SELECT id, item, amount AS n FROM orders WHERE id > 2;
CREATE TABLE results (what STRING, id BIGINT, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'one name in two tables', id, n FROM a WHERE EXISTS (SELECT 1 FROM b x JOIN b y ON x.item = y.item WHERE y.n = a.n AND x.id <> a.id);
INSERT INTO results SELECT 'an aggregate exists', id, n FROM a WHERE EXISTS (SELECT COUNT(*) FROM b WHERE b.id = a.id);
INSERT INTO results SELECT 'groups of a condition', id, n FROM a WHERE EXISTS (SELECT MAX(n) FROM b WHERE b.item = a.item HAVING COUNT(*) > 1);
INSERT INTO results SELECT 'below an outer join', id, (SELECT COUNT(*) FROM b LEFT JOIN (SELECT id FROM orders WHERE amount < a.n) x ON x.id = b.id) FROM a;
INSERT INTO results SELECT 'less', id, (SELECT MAX(b.n) FROM b WHERE b.id < a.id) FROM a;
INSERT INTO results SELECT 'number of less', id, (SELECT COUNT(*) FROM b WHERE b.n < a.n) + 1 FROM a;
INSERT INTO results SELECT 'two levels up', id, n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE EXISTS (SELECT 1 FROM orders o WHERE o.item = a.item AND o.id = b.id AND o.amount > a.n));
INSERT INTO results SELECT 'any as a value', id, CASE WHEN n > ANY (SELECT b.n FROM b WHERE b.item = a.item) THEN 1 WHEN n IS NULL THEN 2 ELSE 3 END FROM a;
INSERT INTO results SELECT 'all or', id, n FROM a WHERE id = 1 OR n >= ALL (SELECT b.n FROM b WHERE b.item = a.item);
INSERT INTO results SELECT 'any of groups', MAX(id), COUNT(*) FROM a GROUP BY item HAVING COUNT(*) <> ANY (SELECT COUNT(*) FROM b GROUP BY item);
INSERT INTO results SELECT 'pairs as a value', id, CASE (item, n) IN (SELECT item, n FROM b) WHEN TRUE THEN 1 WHEN FALSE THEN 0 END FROM a;
INSERT INTO results SELECT 'within an aggregate', COUNT(*), SUM((SELECT COUNT(*) FROM b WHERE b.item = a.item)) FROM a;
INSERT INTO results SELECT 'in a join', a.id, b.id FROM a LEFT JOIN b ON a.id = b.id AND EXISTS (SELECT 1 FROM orders o WHERE o.id = b.id AND o.amount > 1);
INSERT INTO results SELECT 'the first of each', id, (SELECT b.id FROM b WHERE b.item = a.item ORDER BY b.n DESC, b.id LIMIT 1) FROM a;
INSERT INTO results SELECT 'more than one', a.id, l.id FROM a LEFT JOIN LATERAL (SELECT b.id FROM b WHERE b.n > a.n ORDER BY b.n, b.id LIMIT 2) AS l ON TRUE;
INSERT INTO results SELECT 'a union', id, n FROM a WHERE id IN (SELECT b.id FROM b WHERE b.n = a.n UNION ALL SELECT o.id FROM orders o WHERE o.amount > a.n);
INSERT INTO results SELECT 'elements', id, (SELECT SUM(e.v) FROM UNNEST(ARRAY[a.n, 1]) AS e (v)) FROM a;
INSERT INTO results SELECT 'named', id, n FROM a WHERE EXISTS (WITH c AS (SELECT id FROM b WHERE b.n = a.n) SELECT 1 FROM c WHERE c.id <> a.id);
INSERT INTO results SELECT 'of both sides', a.id, b.id FROM a LEFT JOIN b ON a.item = b.item AND EXISTS (SELECT 1 FROM orders o WHERE o.id > a.id AND o.id < b.id);
INSERT INTO results SELECT 'of both sides, right', a.id, b.id FROM a RIGHT JOIN b ON b.n + a.n > (SELECT MAX(o.amount) FROM orders o WHERE o.id = a.id OR o.id = b.id) AND a.id IN (SELECT o.id FROM orders o WHERE o.amount <= b.n);
INSERT INTO results SELECT 'sets of each', a.id, SUM(s.c * COALESCE(s.n, 10)) FROM a, LATERAL (SELECT item, n, COUNT(*) AS c FROM b WHERE b.id > a.id GROUP BY GROUPING SETS ((item), (n))) AS s GROUP BY a.id;
INSERT INTO results SELECT 'one key by two names', k, c FROM (SELECT id AS k, CAST(id AS BIGINT) AS same, COUNT(*) AS c FROM b GROUP BY id, CAST(id AS BIGINT)) WHERE k = same;
INSERT INTO results SELECT 'a shared column', a.id, b.id FROM a JOIN (SELECT id, amount AS m FROM orders) o USING (id) LEFT JOIN (SELECT id + 1 AS id, n, item FROM b) b ON id = b.n AND b.id > (SELECT MIN(x.id) FROM orders x WHERE x.item = a.item AND x.amount <= b.n);
INSERT INTO results SELECT 'a full join by hand', a.id, b.id FROM a LEFT JOIN b ON a.item = b.item AND EXISTS (SELECT 1 FROM orders o WHERE o.id > a.id AND o.id < b.id)
  UNION ALL SELECT 'a full join by hand', CAST(NULL AS BIGINT), b.id FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.item = b.item AND EXISTS (SELECT 1 FROM orders o WHERE o.id > a.id AND o.id < b.id));
INSERT INTO results SELECT 'a condition that no row meets', id, COUNT(*) OVER (ORDER BY at) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = o.id AND 1 = 0);
