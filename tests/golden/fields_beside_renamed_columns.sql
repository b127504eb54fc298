-- Fields of rows beside columns that a view or a subquery computes under the name of another column, or of the same one.
CREATE TABLE trips (id BIGINT, who STRING, `at` TIMESTAMP(3), place ROW<name STRING, n BIGINT>, WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/trips.json', 'format' = 'json');
CREATE VIEW clean AS SELECT id, UPPER(COALESCE(who, 'none')) AS who, `at`, place FROM trips;
CREATE TABLE fields (id BIGINT, who STRING, name STRING, `at` TIMESTAMP(3)) WITH ('connector' = 'collect');
CREATE TABLE sums (who STRING, total BIGINT) WITH ('connector' = 'collect');
CREATE TABLE swapped (id BIGINT, who STRING, n BIGINT) WITH ('connector' = 'collect');
CREATE TABLE pairs (id BIGINT, who STRING, name STRING) WITH ('connector' = 'collect');
CREATE TABLE per_window (ends TIMESTAMP(3), who STRING, n BIGINT) WITH ('connector' = 'collect');
INSERT INTO fields SELECT id, who, place.name, `at` FROM clean WHERE who <> 'CID';
INSERT INTO sums SELECT who, SUM(place.n) FROM clean GROUP BY who;
INSERT INTO swapped SELECT id, who, place.n FROM (SELECT place.n AS id, CAST(id AS STRING) AS who, place FROM trips) WHERE who < '5';
INSERT INTO pairs SELECT a.id, b.who, b.place.name FROM clean AS a JOIN clean AS b ON a.place.name = b.place.name AND a.who <> b.who;
INSERT INTO per_window
SELECT window_end, who, MAX(place.n) FROM TABLE(TUMBLE(TABLE clean, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, who;
