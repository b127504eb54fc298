-- A number literal with a point is a DECIMAL; beside floating point it is floating point, whatever the size of the values.
CREATE TABLE numbers (id BIGINT, x DOUBLE) WITH ('connector' = 'filesystem', 'path' = '$DATA/floats.json', 'format' = 'json');
CREATE TABLE results (what STRING, id BIGINT, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'greater', id, 0 FROM numbers WHERE x > 0.5;
INSERT INTO results SELECT 'zero', id, 0 FROM numbers WHERE x = 0.0;
INSERT INTO results SELECT 'between', id, 0 FROM numbers WHERE x BETWEEN -0.5 AND 0.5;
INSERT INTO results SELECT 'in', id, 0 FROM numbers WHERE x IN (0.1, 2.5);
INSERT INTO results SELECT 'case', id, CASE x WHEN 0.1 THEN 1 ELSE 2 END FROM numbers;
INSERT INTO results SELECT 'branches', id, 0 FROM numbers WHERE CASE WHEN id > 1 THEN x ELSE 1.5 END > 1.0;
INSERT INTO results SELECT 'nullif', id, 0 FROM numbers WHERE NULLIF(x, 0.1) IS NULL;
INSERT INTO results SELECT 'coalesce', id, 0 FROM numbers WHERE COALESCE(x, 0.25) < 0.5;
