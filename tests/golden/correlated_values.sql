-- IN and EXISTS as values whose subqueries read columns of the query around them.
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE VIEW known AS SELECT id, item, NULLIF(amount, 3) AS amount FROM orders WHERE id <> 4;
CREATE TABLE results (what STRING, id BIGINT, there BOOLEAN) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'exists', id, EXISTS (SELECT 1 FROM known AS k WHERE k.item = o.item AND k.amount = 1) FROM orders AS o;
INSERT INTO results SELECT 'not exists', id, NOT EXISTS (SELECT * FROM known AS k WHERE k.id = o.id) OR id = 2 FROM orders AS o;
INSERT INTO results SELECT 'in', id, amount IN (SELECT k.amount FROM known AS k WHERE k.item = o.item AND k.id <> 1) FROM orders AS o;
INSERT INTO results SELECT 'not in', id, NULLIF(amount, 2) NOT IN (SELECT k.amount FROM known AS k WHERE k.item = o.item) FROM orders AS o;
INSERT INTO results SELECT 'or', id, TRUE FROM orders AS o WHERE id = 1 OR EXISTS (SELECT 1 FROM known AS k WHERE k.item = o.item AND k.amount > 2);
INSERT INTO results SELECT 'or in', id, TRUE FROM orders AS o WHERE id = 1 OR o.amount IN (SELECT k.amount FROM known AS k WHERE k.item = o.item AND k.id > 4);
INSERT INTO results SELECT 'in a case', id, CASE WHEN EXISTS (SELECT 1 FROM known AS k WHERE k.id = o.id) THEN amount > 1 END FROM orders AS o;
