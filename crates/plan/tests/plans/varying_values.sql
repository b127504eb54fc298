CREATE TABLE clicks (page STRING, user_id BIGINT, tags ARRAY<STRING>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE out (page STRING, n BIGINT) WITH ('connector' = 'print');
CREATE VIEW counts AS SELECT page, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end;
-- Of the results, not of the rows that are counted; the other condition is asked before.
INSERT INTO out SELECT page, n FROM counts WHERE RANDOM() < 0.5 AND page <> 'home';
-- Of the rows.
INSERT INTO out SELECT page, user_id FROM clicks WHERE RANDOM() < 0.5 AND page <> 'home';
-- Of pairs.
INSERT INTO out SELECT a.page, b.user_id FROM clicks AS a JOIN clicks AS b ON a.user_id = b.user_id WHERE RANDOM() < 0.5;
INSERT INTO out SELECT a.page, b.user_id FROM clicks AS a JOIN clicks AS b ON a.user_id = b.user_id AND RANDOM() < 0.5;
-- A quarter of the rows.
CREATE VIEW half AS SELECT * FROM clicks WHERE RANDOM() < 0.5;
INSERT INTO out SELECT page, user_id FROM half WHERE RANDOM() < 0.5;
-- What a source gives its rows does not vary.
INSERT INTO out SELECT tag, user_id FROM clicks CROSS JOIN UNNEST(tags) AS u(tag) WHERE ts <= CURRENT_WATERMARK(ts);
INSERT INTO out SELECT a.page, b.user_id FROM clicks AS a JOIN clicks AS b ON a.user_id = b.user_id
WHERE a.ts > PROCTIME() - INTERVAL '1' HOUR;
-- As a column of a query, a value is computed once.
INSERT INTO out SELECT page, COALESCE(r, 5) FROM (SELECT page, CASE WHEN RAND() < 0.5 THEN 7 END AS r FROM clicks);
INSERT INTO out SELECT page, user_id FROM (SELECT *, RAND() AS r FROM clicks) WHERE r BETWEEN 0.4 AND 0.6;
CREATE VIEW drawn AS SELECT ts, RAND_INTEGER(3) AS k FROM clicks;
INSERT INTO out SELECT CAST(k AS STRING), n FROM (SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE drawn, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end) WHERE k = 1;
INSERT INTO out SELECT CASE r WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END, CAST(NULLIF(q, 0) AS BIGINT) FROM (SELECT FLOOR(RAND() * 2) AS r, FLOOR(RAND() * 2) AS q FROM clicks);
-- A last argument is not copied.
INSERT INTO out SELECT COALESCE(page, UUID()), user_id FROM clicks;
-- Keys are computed on their sides.
INSERT INTO out SELECT a.page, b.user_id FROM clicks AS a LEFT JOIN clicks AS b ON a.user_id = b.user_id + RAND_INTEGER(2);
-- Of elements, not of rows.
INSERT INTO out SELECT tag, user_id FROM clicks CROSS JOIN UNNEST(tags) AS u(tag) WHERE RAND() < 0.1;
