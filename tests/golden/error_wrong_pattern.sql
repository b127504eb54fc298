-- error: line 4, column 55: the pattern '[' of SIMILAR TO is wrong: unclosed character class
CREATE TABLE out (name STRING) WITH ('connector' = 'collect');
INSERT INTO out SELECT name
FROM (VALUES ('a')) AS t (name) WHERE name SIMILAR TO '[';
