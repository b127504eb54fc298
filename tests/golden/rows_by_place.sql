-- ROW(...) becomes a row of a table's column field by field, by their places; so does a conversion to a type of rows.
CREATE TABLE trips (id BIGINT, who STRING, `at` TIMESTAMP(3), place ROW<name STRING, n BIGINT>)
WITH ('connector' = 'filesystem', 'path' = '$DATA/trips.json', 'format' = 'json');
CREATE TABLE built (id BIGINT, one ROW<name STRING, number DOUBLE>, several ARRAY<ROW<k BIGINT, v STRING>>) WITH ('connector' = 'collect');
CREATE TABLE taken (id BIGINT, n BIGINT, name STRING, text STRING) WITH ('connector' = 'collect');
CREATE TABLE gathered (who STRING, places ARRAY<ROW<id BIGINT, name STRING>>) WITH ('connector' = 'collect');
INSERT INTO built SELECT id, ROW(who, id), ARRAY[ROW(id, who), ROW(id + 1, who)] FROM trips;
INSERT INTO taken SELECT id, r.b, r.a, CAST(TRY_CAST(r AS ROW<a BIGINT, b BIGINT>) AS STRING) FROM (
  SELECT id, CAST(place AS ROW<a STRING, b BIGINT>) AS r FROM trips);
CREATE TABLE missing (id BIGINT, one ROW<name STRING, number DOUBLE>) WITH ('connector' = 'collect');
INSERT INTO missing SELECT id, ROW(NULL, id) FROM trips;
INSERT INTO gathered SELECT UPPER(who), ARRAY_AGG(ROW(id, place.name)) FROM trips WHERE id < 2 GROUP BY UPPER(who);
