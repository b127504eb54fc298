CREATE TABLE t (id BIGINT) WITH ('connector' = 'stream');
CREATE TABLE results (id BIGINT) WITH ('connector' = 'print');
CREATE OR REPLACE TABLE t (other STRING, id BIGINT) WITH ('connector' = 'kafka', 'topic' = 't');
INSERT INTO results SELECT id FROM t;
