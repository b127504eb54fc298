-- Functions of arrays over columns and constants, in SELECT and WHERE, as results and as elements.
CREATE TABLE nested (id BIGINT, list ARRAY<BIGINT>, stops ARRAY<ROW<name STRING, n INT>>, place ROW<ts BIGINT, name STRING>)
WITH ('connector' = 'filesystem', 'path' = '$DATA/nested.json', 'format' = 'json');
CREATE TABLE built (id BIGINT, made ARRAY<BIGINT>, names ARRAY<STRING>, constant ARRAY<INT>, empty ARRAY<INT>, pairs ARRAY<ARRAY<BIGINT>>) WITH ('connector' = 'collect');
CREATE TABLE asked (id BIGINT, n INT, has BOOLEAN, place INT, most BIGINT, third BIGINT, shown STRING, stop STRING, joined STRING) WITH ('connector' = 'collect');
CREATE TABLE changed (id BIGINT, appended ARRAY<BIGINT>, sorted ARRAY<BIGINT>, sliced ARRAY<BIGINT>, kept ARRAY<BIGINT>, parts ARRAY<STRING>) WITH ('connector' = 'collect');
INSERT INTO built
SELECT id, ARRAY[id, list[1], 5], ARRAY[place.name, 'x'], ARRAY[1, 2, NULL], ARRAY_REMOVE(ARRAY[0], 0), ARRAY[list, ARRAY[id]] FROM nested;
INSERT INTO asked
SELECT id, CARDINALITY(list), ARRAY_CONTAINS(list, 7), ARRAY_POSITION(list, 20), ARRAY_MAX(list), ARRAY[7, 8, 9][CAST(id AS INT)], CAST(list AS STRING),
    ARRAY_REVERSE(stops)[1].name, ARRAY_JOIN(ARRAY[place.name, NULL, 'z'], '-', '?')
FROM nested WHERE CARDINALITY(list) <> 1 AND NOT ARRAY_CONTAINS(ARRAY[9, 10], CAST(id AS INT));
INSERT INTO changed
SELECT id, ARRAY_APPEND(list, id), ARRAY_SORT(ARRAY_CONCAT(list, ARRAY[25, id]), FALSE), ARRAY_SLICE(list, -2), ARRAY_EXCEPT(list, ARRAY[20]), SPLIT(place.name, '')
FROM nested;
