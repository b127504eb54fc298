-- LATERAL: the first rows of a subquery for each row before it, and what it aggregates.
CREATE TABLE trips (id BIGINT, who STRING, `at` TIMESTAMP(3), place ROW<name STRING, n BIGINT>)
WITH ('connector' = 'filesystem', 'path' = '$DATA/trips.json', 'format' = 'json');
CREATE VIEW names AS SELECT DISTINCT place.name AS name FROM trips;
CREATE VIEW stops AS SELECT id, place.name AS name, place.n AS n FROM trips;
CREATE TABLE latest (name STRING, id BIGINT) WITH ('connector' = 'collect');
CREATE TABLE named (name STRING, a BIGINT, b BIGINT) WITH ('connector' = 'collect');
CREATE TABLE some (name STRING, id BIGINT, n BIGINT) WITH ('connector' = 'collect');
CREATE TABLE counted (name STRING, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO latest SELECT k.name, o.id FROM names AS k, LATERAL (SELECT id FROM stops WHERE stops.name = k.name ORDER BY id DESC LIMIT 1) AS o;
INSERT INTO named SELECT * FROM names AS k LEFT JOIN LATERAL (
  SELECT id, n FROM stops AS s WHERE k.name = s.name AND n > 2 ORDER BY 1, n LIMIT 1) AS o (a, b) ON TRUE;
INSERT INTO some SELECT k.name, o.* FROM names AS k CROSS JOIN LATERAL (
  SELECT id, n FROM stops AS s WHERE s.name = k.name ORDER BY n, id FETCH FIRST 2 ROWS ONLY) AS o;
INSERT INTO counted SELECT k.name, o.n FROM names AS k, LATERAL (SELECT COUNT(*) AS n FROM stops AS s WHERE s.name = k.name) AS o;
