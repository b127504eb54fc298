CREATE TABLE t (id INT, ts TIMESTAMP(3)) WITH ('connector' = 'kafka', 'topic' = 'a');
ALTER TABLE t DROP CONSTRAINT pk;
