-- error: m is a MAP, which has no fields
CREATE TABLE t (id BIGINT, m MAP<STRING, BIGINT>) WITH ('connector' = 'filesystem', 'path' = '$DATA/maps.json', 'format' = 'json');
CREATE TABLE out (n BIGINT) WITH ('connector' = 'collect');
INSERT INTO out SELECT t.m.a FROM t;
