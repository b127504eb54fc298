-- error: the elements of an ARRAY have no common type: BIGINT, STRING
CREATE TABLE out (made ARRAY<BIGINT>) WITH ('connector' = 'collect');
INSERT INTO out SELECT ARRAY[id, 'x'] FROM (VALUES (1), (2)) AS t (id);
