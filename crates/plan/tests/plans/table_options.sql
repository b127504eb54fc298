-- Tables with other options where they are read or written: equal ones are read once.
CREATE TABLE numbers (x INT, y INT) WITH ('connector' = 'kafka', 'topic' = 'numbers', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE out (x INT, y INT) WITH ('connector' = 'print');

INSERT INTO out /*+ OPTIONS('print-identifier' = 'small') */
SELECT numbers.x, o.y FROM numbers /*+ OPTIONS('scan.startup.mode' = 'latest-offset') */
JOIN numbers /*+ OPTIONS('scan.startup.mode' = 'latest-offset') */ AS o ON numbers.x = o.x;

INSERT INTO out SELECT x, y FROM default_database.numbers /*+ OPTIONS('topic' = 'others') */;
INSERT INTO out SELECT x, y FROM numbers WHERE x > 1;
