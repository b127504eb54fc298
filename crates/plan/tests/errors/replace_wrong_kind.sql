CREATE TABLE t (id BIGINT) WITH ('connector' = 'stream');
CREATE VIEW v AS SELECT id FROM t;
CREATE OR REPLACE TABLE v (id BIGINT) WITH ('connector' = 'stream');
