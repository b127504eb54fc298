-- Elements of arrays count from 1, and are NULL where there is none; fields of rows; times far in the future.
CREATE TABLE nested (id BIGINT, list ARRAY<BIGINT>, place ROW<ts BIGINT, name STRING>, stops ARRAY<ROW<name STRING, n INT>>,
    ts AS TO_TIMESTAMP_LTZ(place.ts, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '$DATA/nested.json', 'format' = 'json');
CREATE TABLE elements (id BIGINT, first_element BIGINT, last_element BIGINT, computed BIGINT, stop STRING, n INT, name STRING) WITH ('connector' = 'collect');
CREATE TABLE times (id BIGINT, ts TIMESTAMP_LTZ(3), ms BIGINT, month_start TIMESTAMP_LTZ(3), year_end TIMESTAMP_LTZ(3), later TIMESTAMP(3)) WITH ('connector' = 'collect');
INSERT INTO elements
SELECT id, list[1], n.list[3], list[id - 1], stops[1].name, stops[2]['n'], n.place['name'] FROM nested AS n;
INSERT INTO times
SELECT n.id, n.ts, n.place.ts, DATE_TRUNC('month', n.ts), CEIL(n.ts TO YEAR), CAST('9999-12-31 00:00:00' AS TIMESTAMP(3)) + INTERVAL '1' DAY
FROM nested n WHERE list[2] IS NOT NULL;
