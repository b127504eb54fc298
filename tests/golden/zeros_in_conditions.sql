-- Conditions that tell 0.0 and -0.0 apart, above what takes them for equal.
SET 'execution.runtime-mode' = 'batch';
CREATE VIEW zeros AS SELECT * FROM (VALUES (CAST(0 AS DOUBLE), 1), (CAST('-0.0' AS DOUBLE), 2), (CAST(2 AS DOUBLE), 3)) AS t(f, n);
CREATE TABLE results (what STRING, f DOUBLE, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'groups', f, COUNT(*) FROM zeros GROUP BY f HAVING CAST(f AS STRING) = '-0.0';
INSERT INTO results SELECT 'inverse', f, n FROM (SELECT f, COUNT(*) AS n FROM zeros GROUP BY f) WHERE 1 / f < 0;
INSERT INTO results SELECT 'distinct', f, 0 FROM (SELECT DISTINCT f FROM zeros) WHERE CAST(f AS STRING) = '-0.0';
INSERT INTO results SELECT 'first', f, n FROM (SELECT f, n, ROW_NUMBER() OVER (PARTITION BY f ORDER BY n) AS r FROM zeros) WHERE CAST(f AS STRING) = '-0.0' AND r <= 1;
INSERT INTO results SELECT 'all', f, n FROM (SELECT f, COUNT(*) AS n FROM zeros GROUP BY f) WHERE f < 1;
