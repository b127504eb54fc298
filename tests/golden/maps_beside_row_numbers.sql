-- Rows with maps wait, are kept and taken back, where rows are numbered.
CREATE TABLE events (id BIGINT, `at` BIGINT, tags MAP<STRING, STRING>, counts MAP<STRING, BIGINT>, ts AS TO_TIMESTAMP_LTZ(`at`, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '$DATA/maps.json', 'format' = 'json');
CREATE TABLE results (what STRING, id BIGINT, size STRING, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT 'latest', id, tags['size'], CARDINALITY(counts)
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id % 2 ORDER BY `at` DESC, id) AS nth FROM events) WHERE nth = 1;
INSERT INTO results SELECT 'first', id, tags['size'], CARDINALITY(counts)
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id % 2 ORDER BY ts) AS nth FROM events) WHERE nth = 1;
INSERT INTO results SELECT 'in windows', id, tags['size'], CARDINALITY(counts)
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY id) AS nth FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE nth <= 2;
INSERT INTO results SELECT 'of the latest', id, tags['size'], CARDINALITY(counts)
FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY id DESC) AS place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id % 2 ORDER BY `at` DESC, id) AS nth FROM events) WHERE nth = 1) WHERE place = 1;
