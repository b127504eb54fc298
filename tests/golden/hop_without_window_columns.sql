CREATE TABLE numbers (id BIGINT, a BIGINT, b BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE results (what STRING, id BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'plain', id FROM TABLE(HOP(TABLE numbers, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) WHERE id < 4;
INSERT INTO results SELECT 'subquery', id FROM (SELECT id, window_start FROM TABLE(HOP(TABLE numbers, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))) WHERE id < 3;
INSERT INTO results SELECT 'count', COUNT(*) FROM TABLE(HOP(TABLE numbers, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND));
INSERT INTO results SELECT 'distinct', COUNT(DISTINCT id) FROM TABLE(HOP(TABLE numbers, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND));
INSERT INTO results SELECT 'tumble', id FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '5' SECOND)) WHERE id < 3;
CREATE TABLE certain (id BIGINT NOT NULL, a BIGINT NOT NULL) WITH ('connector' = 'filesystem', 'path' = '$DATA/certain.json', 'format' = 'json');
INSERT INTO results SELECT 'joined', h.id FROM TABLE(HOP(TABLE numbers, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) h JOIN certain c ON h.id = c.id;
