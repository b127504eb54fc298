-- Maps from JSON, constructed, taken apart and compared; as arguments of aggregates.
CREATE TABLE events (id BIGINT, `at` BIGINT, tags MAP<STRING, STRING>, counts MAP<STRING, BIGINT>, stops MAP<STRING, ARRAY<ROW<name STRING, n INT>>>,
    nested MAP<STRING, MAP<STRING, INT>>, ts AS TO_TIMESTAMP_LTZ(`at`, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '$DATA/maps.json', 'format' = 'json');
CREATE TABLE taken (id BIGINT, color STRING, a BIGINT, computed BIGINT, n INT, `keys` ARRAY<STRING>, vals ARRAY<BIGINT>, stop STRING, deep INT, shown STRING, entry STRING) WITH ('connector' = 'collect');
CREATE TABLE built (id BIGINT, made MAP<STRING, BIGINT>, constant MAP<INT, STRING>, empty MAP<STRING, BIGINT>, merged MAP<STRING, BIGINT>, parsed MAP<STRING, STRING>,
    widened MAP<STRING, DECIMAL(10, 2)>, copied MAP<STRING, MAP<STRING, INT>>, entries ARRAY<ROW<`key` STRING, `value` BIGINT>>) WITH ('connector' = 'collect');
CREATE TABLE compared (id BIGINT, same BOOLEAN, other BOOLEAN, listed BOOLEAN, word STRING, nothing MAP<STRING, BIGINT>, distinct_from BOOLEAN) WITH ('connector' = 'collect');
CREATE TABLE grouped (window_start TIMESTAMP(3), color STRING, n BIGINT, first_tags MAP<STRING, STRING>, last_counts MAP<STRING, BIGINT>, all_counts ARRAY<MAP<STRING, BIGINT>>) WITH ('connector' = 'collect');
INSERT INTO taken
SELECT id, tags['color'], counts['a'], counts[CASE WHEN id = 2 THEN 'b' ELSE 'a' END], CARDINALITY(tags), MAP_KEYS(tags), MAP_VALUES(counts), stops['first'][2].name, e.nested['in']['deep'],
    CAST(counts AS STRING), CAST(MAP_ENTRIES(counts)[1] AS STRING)
FROM events AS e;
INSERT INTO built
SELECT id, MAP['id', id, 'b', counts['b'], 'five', 5], MAP[1, 'one', 2, t], MAP_FROM_ARRAYS(ARRAY_REMOVE(ARRAY['a'], 'a'), ARRAY_REMOVE(ARRAY[id], id)),
    MAP_UNION(counts, MAP['b', 1, 'z', id]), STR_TO_MAP('id=' || CAST(id AS STRING) || ',x'), counts, nested, MAP_ENTRIES(counts)
FROM (SELECT *, CAST(NULL AS STRING) AS t FROM events) AS e;
INSERT INTO compared
SELECT id, counts = MAP['a', 1, 'b', 20], counts <> MAP['b', 2], counts IN (MAP['c', 3], MAP['b', 20, 'a', 1]), CASE counts WHEN MAP['c', 3] THEN 'c' ELSE 'other' END,
    NULLIF(counts, MAP['c', 3]), counts IS DISTINCT FROM MAP['c', 3]
FROM events WHERE tags IS NULL OR tags['size'] IS DISTINCT FROM 'XL';
INSERT INTO grouped
SELECT window_start, tags['color'], COUNT(counts), FIRST_VALUE(tags), LAST_VALUE(counts), ARRAY_AGG(counts)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE id <> 3 GROUP BY window_start, window_end, tags['color'];
