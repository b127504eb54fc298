CREATE TABLE a (id BIGINT, n INT) WITH ('connector' = 'filesystem', 'path' = '/a', 'format' = 'json');
CREATE TABLE b (id BIGINT, n INT) WITH ('connector' = 'filesystem', 'path' = '/b', 'format' = 'json');
CREATE TABLE out (x BIGINT, y BIGINT) WITH ('connector' = 'print');
INSERT INTO out SELECT a.id, b.id FROM a FULL JOIN b ON a.id = b.id AND EXISTS (SELECT 1 FROM a x WHERE x.n > a.n AND x.n < b.n);
