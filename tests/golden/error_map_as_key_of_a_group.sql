-- error: m of GROUP BY or DISTINCT is MAP<STRING, BIGINT>: maps are only compared with = and <>
CREATE TABLE t (id BIGINT, m MAP<STRING, BIGINT>) WITH ('connector' = 'filesystem', 'path' = '$DATA/maps.json', 'format' = 'json');
CREATE TABLE out (n BIGINT) WITH ('connector' = 'collect');
INSERT INTO out SELECT COUNT(*) FROM t GROUP BY m;
