-- Rows that the query itself gives: types of a column fit together, expressions are computed, any part of them is read.
CREATE TABLE rows_out (n BIGINT, text STRING, amount DECIMAL(12, 3), ratio DOUBLE, ts TIMESTAMP(3), flag BOOLEAN)
WITH ('connector' = 'collect');
CREATE TABLE numbers_out (n BIGINT, name STRING) WITH ('connector' = 'collect');
CREATE TABLE counts_out (what STRING, n BIGINT) WITH ('connector' = 'collect');

INSERT INTO rows_out VALUES
    (1, 'one', 1, 1.5, TIMESTAMP '2024-01-01 00:00:00', TRUE),
    (-2, UPPER('two'), 2.25, 1e3, TIMESTAMP '2024-01-01 00:00:00.123', 1 > 2),
    (1 + 2, NULL, 10 / 4.0, NULL, CAST('2024-01-02 03:04:05' AS TIMESTAMP(3)), NULL),
    (NULL, 'a, ''b'' #1', CAST('7.125' AS DECIMAL(10, 3)), 1, NULL, 'a' LIKE '%a');

INSERT INTO numbers_out
SELECT n * 10, name FROM (VALUES (1, 'one'), (2, 'two'), (3, 'three')) AS t (n, name) WHERE n <> 2
UNION ALL SELECT 7, 'seven'
UNION ALL VALUES (8, 'eight'), (9, 'nine');

INSERT INTO counts_out
SELECT 'rows', COUNT(*) FROM (VALUES (1), (1), (NULL)) AS t (n)
UNION ALL SELECT 'of one name', COUNT(*) FROM (VALUES (1), (1), (2)) AS t (n) GROUP BY n
UNION ALL SELECT 'without a table', COUNT(*)
UNION ALL SELECT 'never', COUNT(*) FROM (VALUES (1), (2)) AS t (n) WHERE 1 = 0
UNION ALL SELECT 'nothing', COUNT(*) FROM (VALUES (1), (2)) AS t (n) HAVING 1 = 0
UNION ALL SELECT 'not this row', 1 WHERE 1 > 2;
