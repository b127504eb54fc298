-- error: a key of a MAP is NULL; use COALESCE(key, ...)
CREATE TABLE t (id BIGINT, m MAP<STRING, BIGINT>) WITH ('connector' = 'filesystem', 'path' = '$DATA/maps.json', 'format' = 'json');
CREATE TABLE out (n BIGINT) WITH ('connector' = 'collect');
INSERT INTO out SELECT MAP[CAST(m['none'] AS STRING), id]['a'] FROM t;
