-- error: line 4, column 1: m is MAP<STRING, BIGINT>, and the key is BIGINT
CREATE TABLE t (id BIGINT, m MAP<STRING, BIGINT>) WITH ('connector' = 'filesystem', 'path' = '$DATA/maps.json', 'format' = 'json');
CREATE TABLE out (n BIGINT) WITH ('connector' = 'collect');
INSERT INTO out SELECT m[1] FROM t;
