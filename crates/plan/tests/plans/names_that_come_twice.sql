-- Of columns with the same name, the later ones are numbered: in tables and views of queries, and in subqueries.
CREATE TABLE clicks (who STRING, n INT, loc ROW<n INT, z INT>) WITH ('connector' = 'kafka', 'topic' = 'numbers', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE VIEW pairs AS SELECT a.who, b.who, a.n AS x, b.n AS x FROM clicks AS a JOIN clicks AS b ON a.n = b.n;
CREATE TABLE twice WITH ('connector' = 'print') AS SELECT n, n, loc.n, who0 FROM (SELECT c.n, c.loc, p.who, p.who0 FROM clicks AS c JOIN pairs AS p ON c.n = p.x0);
