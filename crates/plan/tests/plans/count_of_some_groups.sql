-- Some rows of an updating stream, of which no column is needed; a scalar subquery has no row at first, so its column may be NULL.
CREATE TABLE clicks (who STRING, n INT) WITH ('connector' = 'kafka', 'topic' = 'numbers', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE counted WITH ('connector' = 'print') AS
SELECT who, (SELECT COUNT(*) FROM (SELECT who FROM (SELECT who, COUNT(*) AS c FROM clicks GROUP BY who) WHERE c < 3 LIMIT 2)) AS some
FROM clicks;
