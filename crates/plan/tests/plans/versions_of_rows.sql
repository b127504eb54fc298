-- Of the versions of a row the latest counts, unless it deletes the row.
CREATE TABLE people (id BIGINT, name STRING, city STRING NOT NULL, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'upsert-kafka');
CREATE TABLE cities (city STRING, people BIGINT, PRIMARY KEY (city) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
INSERT INTO cities SELECT city, COUNT(*) FROM people GROUP BY city;
