-- Elements of arrays and maps as rows, alone, with the columns of a table, and before a window.
CREATE TABLE nested (id BIGINT, list ARRAY<BIGINT>, stops ARRAY<ROW<name STRING, n INT>>) WITH ('connector' = 'filesystem', 'path' = '$DATA/nested.json', 'format' = 'json');
CREATE TABLE events (id BIGINT, `at` BIGINT, tags MAP<STRING, STRING>, counts MAP<STRING, BIGINT>, ts AS TO_TIMESTAMP_LTZ(`at`, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '$DATA/maps.json', 'format' = 'json');
CREATE TABLE results (what STRING, id BIGINT, name STRING, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'list', id, '', x FROM nested CROSS JOIN UNNEST(list) AS t (x);
INSERT INTO results SELECT 'rows', id, name, n FROM nested, UNNEST(nested.stops) AS s;
INSERT INTO results SELECT 'all rows', n.id, s.a, s.b FROM nested n LEFT JOIN UNNEST(n.stops) AS s (a, b) ON TRUE;
INSERT INTO results SELECT 'numbered', id, CAST(number AS STRING), x FROM nested CROSS JOIN UNNEST(list) WITH ORDINALITY AS t (x, number);
INSERT INTO results SELECT 'map', id, k, v FROM events LEFT JOIN UNNEST(counts) AS t (k, v) ON TRUE;
INSERT INTO results SELECT 'computed', id, '', x FROM nested CROSS JOIN UNNEST(ARRAY[id, 10 * id, list[2]]) AS t (x) WHERE x > 1 AND id < 3;
INSERT INTO results SELECT 'twice', id, s.name, x FROM nested CROSS JOIN UNNEST(list) AS t (x) CROSS JOIN UNNEST(stops) AS s WHERE s.n < 3;
INSERT INTO results SELECT 'condition', id, s.name, s.n FROM nested JOIN UNNEST(stops) AS s ON s.n >= id;
INSERT INTO results SELECT 'alone', x, y, 0 FROM UNNEST(ARRAY[3, 4]) AS t (x) CROSS JOIN UNNEST(ARRAY['a', 'b']) AS u (y);
INSERT INTO results SELECT 'counted', MAX(id), k, COUNT(*) FROM events CROSS JOIN UNNEST(tags) AS t (k, v) GROUP BY k;
INSERT INTO results SELECT 'windows', COUNT(*), k, SUM(v) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) CROSS JOIN UNNEST(counts) AS t (k, v) GROUP BY window_start, window_end, k;
CREATE VIEW counted AS SELECT id, ts, k, v FROM events CROSS JOIN UNNEST(counts) AS t (k, v);
INSERT INTO results SELECT 'then windows', COUNT(*), k, SUM(v) FROM TABLE(TUMBLE(TABLE counted, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end, k;
INSERT INTO results SELECT 'after a join of its own', b.id, CAST(a.id AS STRING), x FROM nested a, nested b LEFT JOIN nested c ON b.id = c.id + 1, UNNEST(a.list) AS t (x) WHERE x > 10;
INSERT INTO results SELECT 'in parentheses', a.id, CAST(b.id AS STRING), x FROM (nested a CROSS JOIN UNNEST(a.list) AS t (x)) JOIN nested b ON b.id = a.id WHERE x > 10;
INSERT INTO results SELECT 'of a union', id, '', x * 1000000000 FROM (SELECT id, ARRAY[7, 8] AS l FROM nested WHERE id = 1 UNION ALL SELECT id, list FROM nested) AS u CROSS JOIN UNNEST(l) AS t (x) WHERE x > 7;
INSERT INTO results SELECT 'of a CASE', id, '', x * 1000000000 FROM nested CROSS JOIN UNNEST(CASE WHEN id < 3 THEN ARRAY[7, 8] ELSE list END) AS t (x) WHERE x > 7;
