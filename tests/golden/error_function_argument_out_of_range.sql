-- error: 2147483648
CREATE FUNCTION half(n INT) RETURNS INT RETURN n / 2;
CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '$DATA/numbers.json', 'format' = 'json');
CREATE TABLE results (n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT half(id + 2147483647) FROM numbers WHERE id = 1;
