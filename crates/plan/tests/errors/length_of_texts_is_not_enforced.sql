CREATE TABLE g (x INT) WITH ('connector' = 'kafka', 'topic' = 'numbers', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE TABLE s (x INT) WITH ('connector' = 'print');
CREATE VIEW v AS SELECT x FROM g;
SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD';
INSERT INTO s SELECT x FROM g;
