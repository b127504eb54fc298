-- Fields of rows of a union, whose sides have other columns; a row under two names.
CREATE TABLE trips (id BIGINT, who STRING, `at` TIMESTAMP(3), place ROW<name STRING, n BIGINT>)
WITH ('connector' = 'filesystem', 'path' = '$DATA/trips.json', 'format' = 'json');
CREATE TABLE sides (who STRING, name STRING) WITH ('connector' = 'collect');
CREATE TABLE fields (name STRING, who STRING) WITH ('connector' = 'collect');
CREATE TABLE twice (a BIGINT, b STRING) WITH ('connector' = 'collect');
INSERT INTO sides SELECT q.c, q.r.name FROM (
  SELECT place.name AS c, who AS d, place AS r FROM trips
  UNION ALL SELECT who AS c, who || 'w' AS d, place AS r2 FROM trips) AS q WHERE UPPER(q.c) <> 'OSLO';
INSERT INTO fields SELECT place.name, who FROM (
  SELECT place, who FROM trips UNION ALL SELECT place, UPPER(who) AS who FROM trips) WHERE who <> 'BOB';
INSERT INTO twice SELECT y.n, z.name FROM (SELECT place AS y, place AS z FROM trips);
