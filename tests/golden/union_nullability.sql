CREATE TABLE numbers (id BIGINT, a BIGINT, b BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE certain (id BIGINT NOT NULL, a BIGINT NOT NULL) WITH ('connector' = 'filesystem', 'path' = '$DATA/certain.json', 'format' = 'json');
CREATE TABLE results (id BIGINT, a BIGINT, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT id, a, 0 FROM (SELECT id, a FROM certain UNION ALL SELECT id, a FROM numbers) WHERE id > 1;
INSERT INTO results SELECT id, a, COUNT(*) FROM (SELECT id, a FROM certain UNION ALL SELECT n.id, c.a FROM numbers n LEFT JOIN certain c ON n.id = c.id) GROUP BY id, a;
INSERT INTO results SELECT -1, a, COUNT(*) FROM (SELECT window_start, 1 AS a FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' SECOND)) UNION ALL SELECT ts, a FROM numbers) GROUP BY a;
