-- Maps in the rows of a static table, which every task has.
CREATE TABLE events (id BIGINT, counts MAP<STRING, BIGINT>) WITH ('connector' = 'filesystem', 'path' = '$DATA/maps.json', 'format' = 'json');
CREATE TABLE known (id BIGINT, tags MAP<STRING, STRING>) WITH ('connector' = 'filesystem', 'path' = '$DATA/maps.json', 'format' = 'json');
CREATE TABLE enriched (id BIGINT, tags MAP<STRING, STRING>, size STRING, b BIGINT) WITH ('connector' = 'collect');
INSERT INTO enriched
SELECT e.id, k.tags, k.tags['size'], e.counts['b'] FROM events AS e LEFT JOIN known AS k ON e.id + 1 = k.id AND e.counts['b'] > 1;
