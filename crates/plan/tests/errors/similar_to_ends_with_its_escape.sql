CREATE TABLE out (a BOOLEAN) WITH ('connector' = 'print');
INSERT INTO out VALUES ('abc' SIMILAR TO 'ab!' ESCAPE '!');
