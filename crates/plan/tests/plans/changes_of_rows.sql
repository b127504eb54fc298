-- Records that are changes of rows: their weights are read, and the primary key identifies a row.
CREATE TABLE people (id INT, name STRING, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'changes');
CREATE TABLE anybody (id INT, city STRING) WITH ('connector' = 'changes');
CREATE TABLE latest (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
CREATE TABLE cities (city STRING, people BIGINT, PRIMARY KEY (city) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
CREATE TABLE copy (id INT, city STRING) WITH ('connector' = 'changes');
INSERT INTO latest SELECT id, UPPER(name) FROM people WHERE city <> 'x';
INSERT INTO cities SELECT city, COUNT(*) FROM people GROUP BY city;
INSERT INTO copy SELECT id, city FROM anybody;
INSERT INTO copy SELECT p.id, a.city FROM people p JOIN anybody a ON p.city = a.city;
